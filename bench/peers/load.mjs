// Puts one peer under load, and says what a run took and cost, and whether its calls arrived once each and in order.
import { readdirSync, readFileSync } from 'node:fs';
import { CALLS, GATED_STEP } from './agent.mjs';
import { openProbe } from './postgres.mjs';

/** Ticks of /proc, ms. */
const TICK_MS = 10;

/**
 * @typedef {object} Peer
 * @property {string} name
 * @property {string} version
 * @property {readonly string[]} databases
 * @property {Readonly<Record<string, number>>} [pids] of further processes whose time counts
 * @property {boolean} [undecided] nobody is asked
 * @property {(run: string, deciding: () => void) => Promise<unknown>} run calls `deciding` just before the decision is
 * sent
 * @property {() => Promise<object>} [details] of the last run
 * @property {() => Promise<void>} close
 */

/** Milliseconds on the clock that all processes of one Linux machine share. */
export const nowMs = () => Number(process.hrtime.bigint()) / 1e6;

/**
 * @param {Peer} peer
 * @param {{ toolUrl: string, runs: number, at: number, warmup: number }} load
 */
export async function measure(peer, { toolUrl, runs, at, warmup }) {
  /** @returns {Promise<readonly { run: string, step: number, tool: string, atMs: number }[]>} */
  const arrived = async () => await (await fetch(toolUrl.replace('/mcp', '/calls'))).json();
  const probe = await openProbe(peer.databases);
  const postgres = Number(fieldsOf(probe.backend)[1]);
  const used = () => ({
    driver: cpuMs(process.pid),
    postgres: peer.databases.length === 0 ? 0 : familyCpuMs(postgres),
    ...Object.fromEntries(Object.entries(peer.pids ?? {}).map(([name, pid]) => [name, cpuMs(pid)])),
  });
  await atOnce(warmup, at, (index) => peer.run(`warm-${process.pid}-${index}`, () => {}));
  await arrived();

  const before = { database: await probe.read(), used: used(), machine: machineMs() };
  /** @type {Map<string, number>} */
  const decidedAt = new Map();
  /** @type {number[]} */
  const took = [];
  const began = nowMs();
  await atOnce(runs, at, async (index) => {
    const run = nameOf(index);
    const start = nowMs();
    await peer.run(run, () => decidedAt.set(run, nowMs()));
    took.push(nowMs() - start);
  });
  const wallMs = nowMs() - began;
  const after = { used: used(), machine: machineMs(), database: await probe.read() };

  const calls = groupedByRun(await arrived());
  const all = Array.from({ length: runs }, (_, index) => calls.get(nameOf(index)) ?? []);
  const delays = peer.undecided
    ? []
    : all.flatMap((own, index) => {
        const gated = own.find(({ step }) => step === GATED_STEP);
        return gated === undefined ? [] : [gated.atMs - (decidedAt.get(nameOf(index)) ?? Number.NaN)];
      });
  const cpu = difference(after.used, before.used);
  const ours = Object.values(cpu).reduce((sum, ms) => sum + ms, 0);
  const database = difference(after.database, before.database);
  const report = {
    peer: peer.name,
    version: peer.version,
    at,
    runs,
    wrong: all.filter((own) => own.length !== CALLS || own.some(({ step }, index) => step !== index + 1)).length,
    runsPerSecond: rounded((runs * 1_000) / wallMs),
    runMs: { p50: quantile(took, 0.5), p99: quantile(took, 0.99) },
    approvalToCallMs: { p50: quantile(delays, 0.5), p99: quantile(delays, 0.99) },
    cpuMsPerRun: rounded(ours / runs),
    cpuMsPerRunOf: Object.fromEntries(Object.entries(cpu).map(([name, ms]) => [name, rounded(ms / runs)])),
    databaseBytesPerRun: Math.round(database.bytes / runs),
    walBytesPerRun: Math.round(database.wal / runs),
    commitsPerRun: rounded(database.commits / runs),
    // The tool server is among the others.
    othersCpuPercent: rounded(
      (100 * (after.machine.busy - before.machine.busy - ours)) / (after.machine.all - before.machine.all),
    ),
    postgres: probe.version,
    node: process.version,
    ...(await peer.details?.()),
  };
  await probe.close();
  return report;
}

/** @param {number} index */
const nameOf = (index) => `run-${process.pid}-${index}`;

/** @template {{ run: string }} T @param {readonly T[]} calls @returns {Map<string, T[]>} */
function groupedByRun(calls) {
  /** @type {Map<string, T[]>} */
  const grouped = new Map();
  for (const call of calls) grouped.set(call.run, [...(grouped.get(call.run) ?? []), call]);
  return grouped;
}

/** @param {number} count @param {number} width @param {(index: number) => Promise<unknown>} one */
async function atOnce(count, width, one) {
  let next = 0;
  const lane = async () => {
    while (next < count) await one(next++);
  };
  await Promise.all(Array.from({ length: Math.min(count, width) }, lane));
}

/** Fields of proc(5) from the third on. @param {number} pid @returns {string[]} */
function fieldsOf(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}

/** User and system time. @param {number} pid */
function cpuMs(pid) {
  const fields = fieldsOf(pid);
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** Of a process, its children, and those that have ended. @param {number} pid */
function familyCpuMs(pid) {
  const fields = fieldsOf(pid);
  let ticks = Number(fields[11]) + Number(fields[12]) + Number(fields[13]) + Number(fields[14]);
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const child = fieldsOf(Number(name));
      if (Number(child[1]) === pid) ticks += Number(child[11]) + Number(child[12]);
    } catch {
      // It has ended meanwhile: its parent counts it.
    }
  }
  return ticks * TICK_MS;
}

function machineMs() {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n');
  const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number);
  const all = ticks.reduce((sum, each) => sum + each, 0);
  const idle = (ticks[3] ?? 0) + (ticks[4] ?? 0);
  return { busy: (all - idle) * TICK_MS, all: all * TICK_MS };
}

/** @template {Record<string, number>} T @param {T} after @param {T} before @returns {T} */
function difference(after, before) {
  return /** @type {T} */ (
    Object.fromEntries(Object.entries(after).map(([name, value]) => [name, value - (before[name] ?? 0)]))
  );
}

/** @param {readonly number[]} values @param {number} share */
function quantile(values, share) {
  const sorted = values.toSorted((a, b) => a - b);
  return rounded(sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN);
}

/** @param {number} value */
const rounded = (value) => Math.round(value * 100) / 100;
