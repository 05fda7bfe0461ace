/**
 * Starts a service for clients that no one here wrote: a worker process that can be killed, and two gateways for the
 * same calls, of which one holds a call for a moment and the other until it is decided.
 */
import { ticketIdOf } from '../../../domain/gate/ticket.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { RunHandle } from '../../../client/index.ts';
import type { Gateway } from '../../../gateway/gateway.ts';
import { type FaultWorld, startFaultWorld } from '../faults/world.ts';
import { type RecordingServer, startRecordingServer } from '../servers/recording-server.ts';
import { until } from '../until.ts';
import type { WorkerProcess } from '../world/worker-process.ts';
import { decideNext } from '../world/world.ts';
import { configOf, connectBank, gatewayConfigOf } from '../scenes/gate-world.ts';
import { startTestGateway, startTestProvider } from '../scenes/gateway-world.ts';

/** Seconds for which calls are held. */
export const HOLDS = { short: 1, long: 40 } as const;
export type Hold = keyof typeof HOLDS;

/** Name of every client in its key, or by `--client`: over one transport, whoever calls is the same client of Ann. */
export const CLIENT = 'coder';

export interface ForeignWorld {
  readonly world: FaultWorld;
  readonly bank: RecordingServer;
  readonly gateways: Readonly<Record<Hold, Gateway>>;
  worker: WorkerProcess;
  restartGateways(): Promise<void>;
  /** Waits until this call of Ann's has a run, and returns it. */
  runOf(tool: string, args: JsonObject): Promise<RunHandle>;
  /** Waits until Ben is asked about this call of Ann's, and decides. */
  decide(tool: string, args: JsonObject, kind?: 'approve' | 'reject'): Promise<void>;
  stop(): Promise<void>;
}

export async function startForeignWorld(): Promise<ForeignWorld> {
  const provider = await startTestProvider();
  const bank = await startRecordingServer();
  const world = await startFaultWorld({ config: configOf(bank) });
  const worker = await world.startWorker();
  await connectBank(world, bank);
  const launch = async (): Promise<ForeignWorld['gateways']> => {
    const [short, long] = await Promise.all(
      [HOLDS.short, HOLDS.long].map(
        async (holdSeconds) => await startTestGateway(world, provider, { config: gatewayConfigOf({ holdSeconds }) }),
      ),
    );
    if (short === undefined || long === undefined) throw new Error('there are two gateways');
    return { short, long };
  };
  let gateways = await launch();
  const stopGateways = async (): Promise<void> => {
    await Promise.all(Object.values(gateways).map(async (gateway) => await gateway.stop()));
  };
  const tickets = world.countersign.tickets(60);
  const runOf = async (tool: string, args: JsonObject): Promise<RunHandle> => {
    const call = { tenant: 'default', person: 'ann', server: 'bank', tool, arguments: args };
    const found = async () =>
      (await tickets.find(ticketIdOf({ ...call, client: `key/${CLIENT}` }))) ??
      (await tickets.find(ticketIdOf({ ...call, client: `stdio/${CLIENT}` })));
    const ticket = await until(found, { what: `the ticket of ${tool}` });
    return world.countersign.run(ticket.runId);
  };
  return {
    world,
    bank,
    worker,
    get gateways() {
      return gateways;
    },
    restartGateways: async () => {
      await stopGateways();
      gateways = await launch();
    },
    runOf,
    decide: async (tool, args, kind) => void (await decideNext(await runOf(tool, args), 'ben', kind)),
    stop: async () => {
      await stopGateways();
      await world.stop();
      await Promise.all([bank.close(), provider.close()]);
    },
  };
}
