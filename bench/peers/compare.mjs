// `node bench/peers/compare.mjs`: every peer in turn, each in a process of its own, on one PostgreSQL. It prints a line
// of JSON for each, and then the table. It works in a copy under .build/peers, where the peers' packages are installed:
// this project has none of them.
import { spawn } from 'node:child_process';
import { appendFileSync, cpSync, mkdirSync } from 'node:fs';
import { once } from 'node:events';
import { cpus, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    at: { type: 'string', default: '1,50' },
    runs: { type: 'string', default: '200' },
    passes: { type: 'string', default: '1' },
  },
});

/** Peer and lane. */
const LANES = [
  ['bare', ''],
  ['temporal', ''],
  ['temporal', 'stretch'],
  ['temporal', 'recorded'],
  ['countersign', ''],
  ['countersign', 'steps'],
  ['dbos', ''],
  ['langgraph', 'async'],
  ['langgraph', 'sync'],
  ['openai-agents', ''],
];
/** A peer that has not answered by then never will. */
const MOST_MS = 900_000;

const root = new URL('../../', import.meta.url);
const copy = fileURLToPath(new URL('.build/peers/', root));
const results = fileURLToPath(new URL('.build/peers-results.jsonl', root));
await install();

const tools = child(fileURLToPath(new URL('bench/echo-server.ts', root)), ['--import', 'tsx']);
const [{ url: toolUrl }] = await once(tools, 'message');
/** @type {object[]} */
const rows = [];
try {
  for (let pass = 0; pass < Number(values.passes); pass += 1) {
    for (const at of values.at.split(',').map(Number)) {
      for (const [peer, lane] of LANES.filter(isWanted)) {
        const row = await outcomeOf(peer, lane, at);
        if (row === undefined) continue;
        rows.push(row);
        process.stdout.write(`${JSON.stringify(row)}\n`);
        appendFileSync(results, `${JSON.stringify(row)}\n`);
      }
    }
  }
} finally {
  tools.kill();
}
process.stdout.write(`\n${table(rows)}\n`);
process.exit(rows.every(({ wrong }) => wrong === 0) ? 0 : 1);

/** @param {readonly string[]} given */
function isWanted([peer = '', lane = '']) {
  const wanted = values.only?.split(',');
  return wanted === undefined || wanted.includes(peer) || wanted.includes(`${peer}:${lane}`);
}

async function install() {
  const source = fileURLToPath(new URL('.', import.meta.url));
  mkdirSync(copy, { recursive: true });
  cpSync(source, copy, { recursive: true });
  // LangChain's packages name ranges of each other that npm does not solve in ten minutes.
  const args = ['install', '--legacy-peer-deps', '--no-audit', '--no-fund', '--loglevel=error'];
  const [code] = await once(spawn('npm', args, { cwd: copy, stdio: ['ignore', 'ignore', 'inherit'] }), 'exit');
  if (code !== 0) throw new Error(`npm install ended with ${code} in ${copy}`);
}

/** @param {string} file @param {readonly string[]} loader @param {readonly string[]} args */
function child(file, loader = [], args = []) {
  return spawn(process.execPath, ['--no-warnings', ...loader, file, ...args], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    cwd: fileURLToPath(root),
  });
}

/** @param {string} peer @param {string} lane @param {number} at */
async function outcomeOf(peer, lane, at) {
  const runs = Number(values.runs);
  const asked = { peer, lane, toolUrl, root: root.href, runs, at, warmup: Math.max(at, Math.round(runs / 5)) };
  const running = child(`${copy}one.mjs`, [], [JSON.stringify(asked)]);
  const late = setTimeout(() => running.kill('SIGKILL'), MOST_MS);
  const row = new Promise((resolve) => running.once('message', resolve));
  const [code] = await once(running, 'exit');
  clearTimeout(late);
  if (code === 0) return { ...(await row), date: new Date().toISOString(), ...machine() };
  process.stderr.write(`${peer} ${lane} ended with ${code}: it has no row.\n`);
  return undefined;
}

function machine() {
  return { cores: cpus().length, memoryGiB: Math.round(totalmem() / 2 ** 30) };
}

/** @param {readonly object[]} found */
function table(found) {
  const head = ['peer', 'at once', 'runs/s', 'CPU ms/run', 'approval to call p50 / p99, ms', 'run p50, ms'];
  const more = ['database kB/run', 'commits/run', 'events/run', 'wrong', 'others CPU %'];
  const lines = found.map((row) => [
    `${row.peer} ${row.version}`.trim(),
    row.at,
    row.runsPerSecond,
    row.cpuMsPerRun,
    row.approvalToCallMs.p50 === null ? '' : `${row.approvalToCallMs.p50} / ${row.approvalToCallMs.p99}`,
    row.runMs.p50,
    Math.round(row.databaseBytesPerRun / 100) / 10,
    row.commitsPerRun,
    row.historyEvents ?? '',
    row.wrong,
    row.othersCpuPercent,
  ]);
  const all = [[...head, ...more], [...head, ...more].map(() => '---'), ...lines];
  return all.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
