/** Runs the command line against a service of its own, as in a terminal opened in the workers' folder. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import type { RunSpecInput } from '../../../contracts/schemas/run-spec.ts';
import { type CommandOptions, type CommandResult, runCommand } from '../cli.ts';
import { startEngine } from '../engine.ts';
import { type RecordingServer, startRecordingServer } from '../servers/recording-server.ts';
import { zoneKey } from '../signing/keys.ts';
import { openRequests, startWorld, type World } from '../world/world.ts';

type Steps = Parameters<World['spec']>[0];

export interface CliWorld {
  readonly world: World;
  /** Server `bank` takes no token; server `vault`, at the same address, takes the caller's. */
  readonly bank: RecordingServer;
  cli(args: readonly string[], options?: CommandOptions): Promise<CommandResult>;
  spec(steps: Steps, over?: Partial<RunSpecInput>): RunSpecInput;
  start(id: string, spec: unknown, ...more: readonly string[]): Promise<CommandResult>;
  /** Starts a run by command and waits for its requests. */
  waiting(id: string, calls?: readonly ReturnType<typeof pay>[]): Promise<readonly ApprovalRequest[]>;
  /** Approves what `waiting` has seen of the call, unless another digest is named. */
  approve(id: string, callId: string, as?: string, ...more: readonly string[]): Promise<CommandResult>;
  stop(): Promise<void>;
}

export const END = { text: 'All is paid.' };

export function pay(purpose: string, note = 'rent') {
  return { tool: 'bank/pay', arguments: { purpose, note } };
}

export async function startCliWorld(): Promise<CliWorld> {
  const bank = await startRecordingServer();
  const engine = await startEngine();
  const zone = await zoneKey();
  await writeFile(join(engine.directory, 'zone.jwk'), JSON.stringify(zone.publicJwk));
  const tools = { lookup: 'allow' } as const;
  const world = await startWorld({
    engine,
    zone,
    beside: [bank],
    config: {
      policy: { servers: { bank: { tools }, vault: { tools } }, approvers: { ids: ['ann', 'ben'], groups: ['ops'] } },
      servers: {
        bank: { url: bank.url, credentials: { kind: 'none' } },
        vault: { url: bank.url, credentials: { kind: 'given' } },
      },
    },
  });
  const { address, namespace } = engine.server;
  const read = new Map<string, string>();
  const cliWorld: CliWorld = {
    world,
    bank,
    cli: async (args, options = {}) =>
      await runCommand([...args, '--address', address, '--namespace', namespace], {
        directory: engine.directory,
        ...options,
      }),
    spec: (steps, over = {}) => world.spec(steps, { servers: [{ name: 'bank' }], ...over }),
    start: async (id, spec, ...more) =>
      await cliWorld.cli(['start', '-', '--id', id, '--json', ...more], { input: JSON.stringify(spec) }),
    waiting: async (id, calls = [pay(id)]) => {
      expect(await cliWorld.start(id, cliWorld.spec([{ calls: [...calls] }, END]))).toMatchObject({
        exitCode: 0,
        err: '',
      });
      const requests = await openRequests(world.countersign.run(id), calls.length);
      for (const { callId, digest } of requests) read.set(`${id} ${callId}`, digest);
      return requests;
    },
    approve: async (id, callId, as = 'ann', ...more) => {
      const digest = read.get(`${id} ${callId}`) ?? 'f'.repeat(64);
      const named = more.includes('--digest') ? [] : ['--digest', digest];
      return await cliWorld.cli(['approve', id, callId, '--as', as, '--json', ...named, ...more]);
    },
    stop: async () => {
      await world.stop();
      await engine.stop();
    },
  };
  return cliWorld;
}
