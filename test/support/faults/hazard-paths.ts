/**
 * Starts one service whose calls come in by every path that there is: agent runs, single calls by the library and over
 * HTTP, MCP clients of the gate, and calls that the model's provider makes. Behind all of them stands one tool server,
 * whose own count says what was executed.
 */
import type { RunHandle } from '../../../client/index.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import { type FaultWorld, startFaultWorld } from './world.ts';
import { hostingModel, type HostedSaid, startHostingProvider } from '../models/hosting-provider.ts';
import { type RecordingServer, startRecordingServer, TOOLS } from '../servers/recording-server.ts';
import { until } from '../until.ts';
import { factsOf } from '../world/run-record.ts';
import type { WorkerProcess } from '../world/worker-process.ts';
import { type decisionOn, openRequests } from '../world/world.ts';
import { connectBank, connectClient, gatewayConfigOf, secretOf } from '../scenes/gate-world.ts';
import { type Caller, callerOf, startTestGateway, startTestProvider } from '../scenes/gateway-world.ts';

export const PATHS = [
  'an agent run',
  'a single call',
  'POST /v1/calls',
  'the gate over MCP',
  'a hosted call',
  'a hosted call of a stored answer',
] as const;
export type Path = (typeof PATHS)[number];

type Decision = ReturnType<typeof decisionOn>;

/** A call that waits for a person. */
export interface AskedCall {
  readonly run: RunHandle;
  readonly request: ApprovalRequest;
  /** Sends a decision in the way of the path. @returns `approved` and the like, or the code of the refusal */
  decide(decision: Decision): Promise<string>;
  /** Waits for the outcome of the call as its caller hears it. */
  told(): Promise<string>;
}

export interface HazardWorld {
  readonly world: FaultWorld;
  readonly bank: RecordingServer;
  /** The worker from the start on, which has both roles. */
  readonly worker: WorkerProcess;
  /** @param tool `pay` waits for a day, `bare` for a moment; `slow` is held by the bank once it is called */
  ask(path: Path, purpose: string, tool?: 'pay' | 'bare' | 'slow'): Promise<AskedCall>;
  stop(): Promise<void>;
}

/** Purpose of the second call of a model, which waits for a person too once the first has ended, and which nobody approves. */
export function nextOf(purpose: string): string {
  return `${purpose}, the next`;
}

/** Longer than the heartbeat timeout of a call, on a busy machine. */
const LONG_MS = 180_000;

/** Seconds for which `bare` waits: long enough to be seen open on a busy machine. */
const MOMENT_SECONDS = 6;

export async function startHazardWorld(): Promise<HazardWorld> {
  const people = await startTestProvider();
  const models = await startHostingProvider();
  // The provider's client takes no list with a tool whose hints are of the wrong type.
  const bank = await startRecordingServer({ tools: TOOLS.filter(({ name }) => name !== 'odd') });
  // Calls have a queue of their own, so that a worker of role `runs` leaves them there.
  const at = { url: bank.url, credentials: { kind: 'none' }, taskQueue: 'calls' } as const;
  const tools = { bare: { action: 'ask', deadlineSeconds: MOMENT_SECONDS } } as const;
  const gpt = hostingModel(models);
  const world = await startFaultWorld({
    config: {
      models: { gpt, keeping: { ...gpt, storesAnswers: true } },
      servers: { bank: at, far: { ...at, execute: 'hosted' } },
      policy: {
        unknownOutcomes: 'record',
        approvers: { ids: ['ben', 'cyd'] },
        servers: { bank: { tools }, far: { tools } },
      },
      catalog: { administrators: [{ ids: ['ann'], may: ['connect', 'loosen', 'tighten'] }], newTools: 'strategy' },
    },
  });
  const worker = await world.startWorker();
  await connectBank(world, bank);
  const gateway = await startTestGateway(world, people, { config: gatewayConfigOf({}) });
  const asPerson = async (sub: string): Promise<Caller> => callerOf(gateway, await people.token({ sub, lives: 3_600 }));
  const [ann, ben, cyd] = [await asPerson('ann'), await asPerson('ben'), await asPerson('cyd')];
  const client = await connectClient(gateway, secretOf('ann/coder'));

  const byLibrary = (run: RunHandle) => async (decision: Decision) =>
    await run.decide(decision).then(({ status }) => status, codeOf);
  const byHttp =
    ({ runId }: RunHandle) =>
    async ({ approver, callId, ...body }: Decision): Promise<string> => {
      const person = approver.id === 'ben' ? ben : cyd;
      const answer = await person('POST', `/v1/runs/${runId}/requests/${callId}/decisions`, body);
      return String(answer.body['code'] ?? answer.body['status']);
    };
  const start: Readonly<Record<Path, (purpose: string, tool: string) => Promise<Omit<AskedCall, 'request'>>>> = {
    'an agent run': async (purpose, tool) => {
      const called = (name: string, of: string) => ({ function: `bank__${name}`, arguments: { purpose: of } });
      return await byModel(`agent: ${purpose}`, [called(tool, purpose), called('pay', nextOf(purpose))]);
    },
    'a hosted call': async (purpose, tool) => await hosted('gpt', purpose, tool),
    'a hosted call of a stored answer': async (purpose, tool) => await hosted('keeping', purpose, tool),
    'a single call': async (purpose, tool) => {
      const call = { server: 'bank', tool, arguments: { purpose }, initiator: { id: 'ann' } };
      const single = await world.countersign.call({
        runId: idOf(`library: ${purpose}`),
        taskQueue: world.config.taskQueue,
        call,
      });
      const told = async () => (await single.answer({ deadlineMs: LONG_MS })).outcome.kind;
      return { run: single.run, decide: byLibrary(single.run), told };
    },
    'POST /v1/calls': async (purpose, tool) => {
      const runId = idOf(`http: ${purpose}`);
      await ann('POST', '/v1/calls', { runId, server: 'bank', tool, arguments: { purpose } });
      const run = world.countersign.run(runId);
      const told = async () =>
        await heard(async () => {
          const { body } = await ann<HttpAnswer>('GET', `/v1/calls/${runId}?waitSeconds=10`);
          return body.answer?.outcome.kind;
        });
      return { run, decide: byHttp(run), told };
    },
    'the gate over MCP': async (purpose, tool) => {
      const call = async (): Promise<GateAnswer> => {
        const result = await client.callTool({ name: `bank__${tool}`, arguments: { purpose } });
        // Sound: tests compare what they use of it.
        return result._meta?.['countersign/call'] as GateAnswer;
      };
      const { reference } = await call();
      const run = world.countersign.run(reference);
      const told = async () =>
        await heard(async () => {
          const { status, reference: of } = await call();
          if (of !== reference) return `another call: ${status}`;
          return status !== 'waiting' && status !== 'running' && status;
        });
      return { run, decide: byHttp(run), told };
    },
  };
  // A run has both servers: its model then speaks in the way that the stand-in of the provider has scripts for.
  async function hosted(model: string, purpose: string, tool: string): Promise<Omit<AskedCall, 'request'>> {
    const called = (name: string, of: string) => ({ server: 'far', tool: name, arguments: { purpose: of } });
    return await byModel(`${model}: ${purpose}`, [called(tool, purpose), called('pay', nextOf(purpose))], model);
  }
  async function byModel(
    input: string,
    calls: Extract<HostedSaid, { calls: unknown }>['calls'],
    model = 'gpt',
  ): Promise<Omit<AskedCall, 'request'>> {
    models.script(input, [...calls.map((call) => ({ calls: [call] })), { text: 'done' }]);
    const run = await world.start(model, { input }, { runId: idOf(input) });
    const told = async () => await heard(async () => factsOf(await run.ledger(), 'outcome', 't1.c0').at(-1)?.outcome);
    return { run, decide: byLibrary(run), told };
  }
  return {
    world,
    bank,
    worker,
    ask: async (path, purpose, tool = 'pay') => {
      const call = await start[path](purpose, tool);
      const [request] = await openRequests(call.run);
      return { ...call, request };
    },
    stop: async () => {
      await client.close();
      await gateway.stop();
      await world.stop();
      await Promise.all([bank.close(), models.close(), people.close()]);
    },
  };
}

interface HttpAnswer {
  readonly answer?: { readonly outcome: { readonly kind: string } };
}

interface GateAnswer {
  readonly reference: string;
  readonly status: string;
}

function idOf(purpose: string): string {
  return purpose.replaceAll(/\W+/g, '-');
}

async function heard(ask: () => Promise<string | false | undefined>): Promise<string> {
  return await until(ask, { what: 'the outcome', withinMs: LONG_MS });
}

function codeOf(error: unknown): string {
  if (error instanceof Error && 'code' in error) return String(error.code);
  throw error;
}
