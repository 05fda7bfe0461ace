/**
 * A drill: runs wait in every way there is on a release, a new build comes beside it, new runs are ramped to it, all of
 * it is taken back and done again, waiting runs are moved, and the old build ends. People answer all the while, and
 * workers of either build are killed. In the end the servers say what they have executed.
 *
 * 1. All on this machine: a Temporal dev server, servers of tools, and workers as processes of the packed command.
 * 2. Operators use the command of the new build, as docs/operations/moving-runs.md tells them to.
 * 3. What is started here ends with it, each by its pid.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@temporalio/client';
import { stringify } from 'yaml';
import { Countersign } from '../../client/index.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { connectClient } from '../../workers/connection.ts';
import { type DevServer, startDevServer } from '../../workers/dev-server.ts';
import type { Build } from '../support/package/packed.ts';
import { until } from '../support/until.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/world/worker-process.ts';
import { type Kind, KINDS, type Scene } from './kinds.ts';
import { answer, POLICY } from './people.ts';
import { type Servers, startServers } from './servers.ts';
import { judge, type Seen, type Verdict } from './table.ts';

export interface DrillOptions {
  /** Path of the Temporal CLI. */
  readonly executable: string;
  /** The build on which the runs begin. */
  readonly old: Build;
  readonly new: Build;
  /** Runs that wait before the new build comes. Some more begin later. */
  readonly runs: number;
  /** Pauses that are drilled. */
  readonly kinds?: readonly Kind[];
  /** Makes the drill fail: one call of one run is made twice. */
  readonly spoil?: boolean;
  readonly tell: (line: string) => void;
}

const NAME = 'drill';
const QUEUE = 'countersign';
/** Runs that are brought to their pause at once, and answered at once. */
const STARTED_AT_ONCE = 8;
const ANSWERED_AT_ONCE = 12;
/** A lost worker is noticed after 30 s, and then people are asked. */
const STUCK_MS = 240_000;
const PAUSE_MS = 120_000;
const DRAIN_MS = 400_000;

type Side = 'old' | 'new';

/** One run of the drill. */
interface Waiting {
  readonly id: string;
  readonly kind: Kind;
  /** When it is answered: while ramped, after the rollback, while the old build is drained, when it is gone. */
  readonly wave: number;
  answeredOn?: Side;
  isOver: boolean;
  /** What is not there although it is over. */
  lost?: string | undefined;
}

export async function drill(options: DrillOptions): Promise<Verdict> {
  const folder = await mkdtemp(join(tmpdir(), 'countersign-drill-'));
  const closing: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  // Interrupted, the process ends without what follows.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  try {
    const servers = await startServers(folder);
    closing.push(servers.close);
    const engine = await startDevServer({ executable: options.executable, ui: false, ownGroup: true });
    closing.push(() => engine.stop('SIGKILL'));
    const connection = await connectClient({ address: engine.address });
    closing.push(() => connection.close());
    const client = new Client({ connection, namespace: engine.namespace });
    const drilled = new Drill(options, { folder, servers, engine, client });
    closing.push(() => drilled.stop());
    return await drilled.play();
  } finally {
    for (const close of closing.toReversed()) await close();
  }
}

interface Parts {
  readonly folder: string;
  readonly servers: Servers;
  readonly engine: DevServer;
  readonly client: Client;
}

class Drill {
  readonly #options: DrillOptions;
  readonly #parts: Parts;
  readonly #scene: Scene;
  readonly #workers = new Map<Side, WorkerProcess>();
  readonly #all: Waiting[] = [];
  readonly #kinds: readonly Kind[];
  /** Build ids, as the workers say. */
  readonly #builds: Record<Side, string>;
  readonly #beganAt = performance.now();

  constructor(options: DrillOptions, parts: Parts) {
    this.#options = options;
    this.#kinds = options.kinds ?? KINDS;
    this.#parts = parts;
    this.#builds = { old: options.old.buildId, new: options.new.buildId };
    const { client, servers } = parts;
    this.#scene = {
      countersign: new Countersign({ client, taskQueue: QUEUE, deadlineMs: 10_000 }),
      servers,
      activities: async (workflowId) => {
        const { raw } = await client.workflow.getHandle(workflowId).describe();
        return (raw.pendingActivities ?? []).map(({ activityType }) => activityType?.name ?? '');
      },
      isOver: async (workflowId) => (await client.workflow.getHandle(workflowId).describe()).status.name !== 'RUNNING',
    };
  }

  async play(): Promise<Verdict> {
    const builds = this.#builds;
    const { runs } = this.#options;
    const few = Math.min(this.#kinds.length, Math.ceil(runs / 4));
    const [first, second, third] = [this.#plan(runs), this.#plan(few), this.#plan(few)];
    const wave = (number: number) => first.filter((run) => run.wave === number);
    await this.#configure();
    await this.#serve('old');
    await this.#deploy('promote', builds.old);
    await this.#begin(first);
    const strays = (await Promise.all(first.map((run) => this.#sideOf(run)))).filter((side) => side !== 'old');
    if (strays.length > 0) throw new Error(`${strays.length} runs did not begin on ${builds.old}`);
    this.#tell(`${first.length} runs wait on build ${builds.old}, in ${this.#kinds.length} ways`);

    await this.#serve('new');
    await this.#deploy('ramp', builds.new, '--percent', '50');
    await Promise.all([this.#begin(second), this.#answer(wave(0), ['old', 'new'])]);
    await this.#deploy('promote', builds.new);
    const half = second.slice(0, second.length / 2).filter(({ kind }) => kind.isLast !== true);
    await Promise.all([this.#begin(third), this.#answer(half, ['new'])]);
    await this.#deploy('rollback');
    await this.#answer(wave(1), ['old', 'new']);
    await this.#deploy('promote', builds.new);
    await Promise.all([this.#drain(), this.#answer(wave(2), ['old'])]);
    await this.#end('old');
    await this.#answer(
      this.#all.filter(({ answeredOn }) => answeredOn === undefined),
      ['new'],
    );
    if (this.#options.spoil === true) await this.#spoil();
    return judge(this.#all.map((run) => this.#seen(run)));
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#workers.values()].map((worker) => worker.kill()));
  }

  #tell(what: string): void {
    const seconds = ((performance.now() - this.#beganAt) / 1_000).toFixed(0);
    this.#options.tell(`${seconds.padStart(4)} s  ${what}`);
  }

  /** Spreads runs over all kinds. */
  #plan(count: number): readonly Waiting[] {
    const from = this.#all.length;
    for (let at = 0; at < count; at += 1) {
      const number = this.#all.length % this.#kinds.length;
      // Sound: the remainder is a place in the list.
      const kind = this.#kinds[number] as Kind;
      const turn = this.#all.filter((run) => run.kind === kind).length;
      const id = `${kind.name.replaceAll(' ', '-')}-${turn + 1}`;
      // With few runs of each kind, the kinds take turns.
      this.#all.push({ id, kind, wave: kind.isLast === true ? 3 : (turn + number) % 4, isOver: false });
    }
    return this.#all.slice(from);
  }

  async #configure(): Promise<void> {
    const { servers } = this.#parts;
    const scripts = this.#all.flatMap(({ id, kind }) => {
      const steps = kind.steps?.(id, servers);
      return steps === undefined ? [] : [[id, { provider: 'scripted' as const, script: { steps } }] as const];
    });
    const tenants = this.#all.filter(({ kind }) => kind.isRun === false).map(({ id }) => id);
    const config: ConfigInput = {
      ...servers.config,
      taskQueue: QUEUE,
      models: { ...servers.config.models, ...Object.fromEntries(scripts) },
      policy: POLICY,
      worker: { deployment: { name: NAME }, shutdownGraceSeconds: 2 },
      catalog: {
        loosening: 'countersign',
        administrators: tenants.map((tenant) => ({
          tenant,
          ids: ['ann', 'zoe'],
          may: ['connect', 'loosen', 'tighten'],
        })),
      },
    };
    await writeFile(this.#configFile, stringify(config, { aliasDuplicateObjects: false }));
  }

  get #configFile(): string {
    return join(this.#parts.folder, 'countersign.yaml');
  }

  async #serve(side: Side): Promise<void> {
    const { address, namespace } = this.#parts.engine;
    const { bin, buildId } = this.#options[side];
    const worker = await startWorkerProcess({
      configFile: this.#configFile,
      address,
      namespace,
      built: bin,
      env: this.#parts.servers.env,
    });
    this.#workers.set(side, worker);
    // A worker whose packages have changed since the release makes its bundle anew, and then its build has another id.
    const said = /"buildId":"([^"]+)"/.exec(worker.output())?.[1] ?? buildId;
    if (said !== this.#builds[side]) this.#tell(`the workers of the ${side} build say that they are build ${said}`);
    this.#builds[side] = said;
  }

  /** Kills a worker in the midst of what it does, and starts another one of its build. */
  async #kill(side: Side): Promise<void> {
    await this.#workers.get(side)?.kill();
    await this.#serve(side);
    this.#tell(`killed a worker of the ${side} build, and started another`);
  }

  async #end(side: Side): Promise<void> {
    const worker = this.#workers.get(side);
    worker?.terminate();
    await worker?.ended;
    this.#workers.delete(side);
    this.#tell(`ended the workers of the ${side} build`);
  }

  /** Repeats a command until its build is seen: a worker that has just begun to poll is not. */
  async #deploy(...args: readonly string[]): Promise<void> {
    const said = await until(() => this.#deployed(args), { what: args.join(' '), withinMs: 60_000 });
    this.#tell(`deploy ${args.join(' ')}: ${said}`);
  }

  /** Moves all runs of the old build. What is in the middle of something goes later, so the command is repeated. */
  async #drain(): Promise<void> {
    const args = ['drain', this.#builds.old, '--move', '--within', '60'];
    const said = await until(() => this.#deployed(args), { what: args.join(' '), withinMs: DRAIN_MS });
    this.#tell(`deploy ${args.join(' ')}: ${said}`);
  }

  async #deployed(args: readonly string[]): Promise<string> {
    const { status, said } = await this.#command(['deploy', ...args]);
    if (status !== 0) throw new Error(said);
    return said.trim();
  }

  async #command(args: readonly string[]): Promise<{ readonly status: number | null; readonly said: string }> {
    const { address, namespace } = this.#parts.engine;
    const where = ['--deployment', NAME, '--address', address, '--namespace', namespace, '--json'];
    const child = spawn(process.execPath, [this.#options.new.bin, ...args, ...where], {
      cwd: this.#parts.folder,
      env: { PATH: process.env['PATH'], ...this.#parts.servers.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const endWithUs = (): void => void child.kill('SIGKILL');
    process.once('exit', endWithUs);
    const said: string[] = [];
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => said.push(text));
    // Sound: the arguments of `close` as Node documents them.
    const [status] = (await once(child, 'close')) as [number | null];
    process.off('exit', endWithUs);
    return { status, said: said.join('') };
  }

  async #begin(runs: readonly Waiting[]): Promise<void> {
    await each(runs, STARTED_AT_ONCE, async ({ id, kind }) => {
      const waits = { what: `the pause of ${id}`, withinMs: PAUSE_MS };
      await until(async () => (await kind.start(this.#scene, id), true), waits);
      await until(async () => kind.waits(this.#scene, id), waits);
    });
  }

  /**
   * Has people answer these runs until they are over.
   * @param killed workers that are killed meanwhile, one after the other
   */
  async #answer(runs: readonly Waiting[], killed: readonly Side[]): Promise<void> {
    const kills: Promise<void>[] = [];
    let begun = 0;
    await each(runs, ANSWERED_AT_ONCE, async (run) => {
      begun += 1;
      const due = Math.floor((begun * (killed.length + 1)) / (runs.length + 1));
      for (const side of killed.slice(kills.length, due)) kills.push(this.#kill(side));
      await this.#answerOne(run);
    });
    await Promise.all(kills);
    this.#tell(`${runs.length} runs were answered`);
  }

  async #answerOne(run: Waiting): Promise<void> {
    const { id, kind } = run;
    const scene = this.#scene;
    const handle = scene.countersign.run(id);
    const isOver = kind.isOver ?? (async () => scene.isOver(this.#workflowIdOf(run)));
    try {
      await until(
        async () => {
          if (await isOver(scene, id)) {
            // Asked at once: the run may have ended on the build whose workers end soon, and nobody else can tell.
            run.lost = (await this.#failureOf(run)) ?? (await kind.lost?.(scene, id));
            run.isOver = true;
            return true;
          }
          await kind.free?.(scene, id);
          const open = kind.isRun === false ? [] : (await handle.requests()).filter(({ status }) => status === 'open');
          for (const request of open) await answer(handle, request, this.#ran(id, request));
          run.answeredOn ??= await this.#sideOf(run);
          return false;
        },
        { what: `the end of ${id}`, withinMs: STUCK_MS },
      );
    } catch (error) {
      const { message, cause } = error instanceof Error ? error : { message: String(error), cause: undefined };
      this.#tell(`${message}: ${String(cause)}`);
    }
    // One that was over before anybody looked.
    run.answeredOn ??= await this.#sideOf(run);
  }

  /** Counts how often a server has executed the call that a request is about. */
  #ran(id: string, request: ApprovalRequest): number {
    const isIt = (given: JsonObject): boolean =>
      Object.entries(given).every(([name, value]) => request.arguments[name] === value);
    return this.#parts.servers.calls(id).filter((call) => call.tool === request.tool && isIt(call.arguments)).length;
  }

  #workflowIdOf({ id, kind }: Waiting): string {
    return kind.workflowId?.(this.#scene, id) ?? id;
  }

  /** Which build has done the last workflow task. */
  async #sideOf(run: Waiting): Promise<Side> {
    const { client } = this.#parts;
    const { raw } = await client.workflow.getHandle(this.#workflowIdOf(run)).describe();
    const build = raw.workflowExecutionInfo?.versioningInfo?.deploymentVersion?.buildId;
    return build === this.#builds.old ? 'old' : 'new';
  }

  /** Makes a call of an ended run again, as a build would that sends what another has sent. */
  async #spoil(): Promise<void> {
    const [run] = this.#all;
    if (run === undefined) return;
    const params = { name: 'pay', arguments: { purpose: run.id } };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
    await fetch(this.#parts.servers.bank.url, { method: 'POST', body });
    this.#tell(`made a call of ${run.id} again`);
  }

  #seen({ id, kind, answeredOn, isOver, lost }: Waiting): Seen {
    const executed = this.#parts.servers.calls(id).length;
    return { id, kind: kind.name, answeredOn, isOver, executed, expected: kind.calls, lost };
  }

  async #failureOf({ id, kind }: Waiting): Promise<string | undefined> {
    if (kind.isRun === false) return undefined;
    try {
      const { status, because = '' } = await this.#scene.countersign.run(id).result({ deadlineMs: 10_000 });
      return status === 'completed' ? undefined : `it ended ${status} ${because}`;
    } catch (error) {
      return String(error);
    }
  }
}

async function each<T>(items: readonly T[], atOnce: number, act: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  const work = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await act(item);
  };
  await Promise.all(Array.from({ length: atOnce }, work));
}
