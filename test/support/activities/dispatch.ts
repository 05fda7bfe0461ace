/**
 * Runs one dispatch of an allowed call through the activity; the test controls everything that the activity
 * reaches.
 */
import { createCallTool } from '../../../activities/gate/call-tool.ts';
import type { CallToolParts } from '../../../activities/gate/send.ts';
import { ServerLimits } from '../../../activities/limits/server-limits.ts';
import type { CallProgress } from '../../../activities/mcp/port.ts';
import { Conditions } from '../../../activities/policy/condition.ts';
import { Config } from '../../../contracts/schemas/config.ts';
import type { DispatchInput, DispatchResult } from '../../../contracts/wire/tools.ts';
import { definitionHash } from '../../../domain/request/digest.ts';
import type { OfferedTool } from '../../../domain/run/toolset.ts';
import { toolDefinition } from '../builders/tool.ts';
import { allowedDispatch, environmentOfRun, type Tried } from './tool-activities.ts';

export const DISPATCH_URL = 'https://files.example/mcp';
const definition = toolDefinition();
const tool: OfferedTool = {
  modelName: 'files__write_file',
  server: 'files',
  serverUrl: DISPATCH_URL,
  definition,
  hash: definitionHash(definition),
};
const input: DispatchInput = allowedDispatch(tool, { path: 'a' }, [], { server: { name: 'files', url: DISPATCH_URL } });

export interface DispatchScene {
  /** Heartbeats that Temporal got. */
  readonly beats: CallProgress[];
  /** Steps in order: listed, minted, called, released. */
  readonly done: string[];
  partsWith(over: Partial<CallToolParts>): CallToolParts;
  dispatched(over?: Partial<CallToolParts>, more?: Partial<DispatchInput>, tried?: Tried): Promise<DispatchResult>;
}

/** A run that nobody asks anything. */
export const UNASKED_RUN: Pick<CallToolParts, 'readMessage' | 'heldRun' | 'readDiscarded'> = {
  readMessage: async () => undefined,
  heldRun: { ask: async () => await unexpected(), word: async () => await unexpected() },
  readDiscarded: async () => undefined,
};

async function unexpected(): Promise<never> {
  throw new Error('the run is asked');
}

export function dispatchScene(): DispatchScene {
  const beats: CallProgress[] = [];
  const done: string[] = [];
  function partsWith(over: Partial<CallToolParts>): CallToolParts {
    return {
      config: Config.parse({
        policy: { strategy: 'never' },
        servers: { files: { url: DISPATCH_URL, credentials: { kind: 'none' } } },
      }),
      conditions: new Conditions(),
      loadToolset: async () => [tool],
      readCatalog: async () => undefined,
      liveTools: {
        current: async (_, known) => {
          done.push('listed');
          return { tool: known, secrets: [] };
        },
      },
      broker: {
        mint: async () => {
          done.push('minted');
          return { evidence: { strategy: 'none' }, secrets: [], release: () => void done.push('released') };
        },
      },
      server: {
        list: () => Promise.reject(new Error('the list is asked for elsewhere')),
        call: async () => {
          done.push('called');
          return { kind: 'executed', isError: false, result: { content: [] } };
        },
      },
      limits: new ServerLimits({ configured: new Map(), tell: () => {} }),
      ...UNASKED_RUN,
      ...over,
    };
  }

  async function dispatched(
    over: Partial<CallToolParts> = {},
    more: Partial<DispatchInput> = {},
    tried?: Tried,
  ): Promise<DispatchResult> {
    const environment = environmentOfRun(tried);
    environment.on('heartbeat', (details: CallProgress) => beats.push(details));
    return await environment.run(createCallTool(partsWith(over)), { ...input, ...more });
  }
  return { beats, done, partsWith, dispatched };
}
