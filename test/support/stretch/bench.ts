/**
 * Runs the activity `stretch`, wrapped as workers have it, in a mocked environment. Model, servers and Temporal are
 * written by hand; what they are told is kept in its order.
 */
import { ActivityCancellationDetails } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { coded } from '../../../activities/kit/activity.ts';
import { createStretch } from '../../../activities/stretch/stretch.ts';
import type { ModelStepInput, ModelStepResult } from '../../../contracts/wire/run.ts';
import type { StretchInput, StretchRecord, StretchResult } from '../../../contracts/wire/stretch.ts';
import type { DispatchInput, DispatchResult } from '../../../contracts/wire/tools.ts';
import { endedAs, stretchInput } from './input.ts';

type Ask<Input, Output> = (input: Input) => Output | Promise<Output>;

export interface BenchOptions {
  /** Answers of the model, in order; one that is a function is asked with the step's input. */
  readonly model: readonly (ModelStepResult | Error | Ask<ModelStepInput, ModelStepResult>)[];
  /** Default: every call succeeds at once. `undefined`: the worker calls no servers. */
  readonly server?: Ask<DispatchInput, DispatchResult> | undefined;
  /** Default: Temporal takes each heartbeat. */
  readonly heartbeat?: Ask<StretchRecord, void>;
  readonly complete?: Ask<StretchRecord, void>;
  readonly cancelsCalls?: () => Promise<boolean>;
  /** False in trust mode `signed`. */
  readonly believesRecords?: boolean;
  /** What an attempt before this one has left. */
  readonly left?: unknown;
}

export class StretchBench {
  /** What happened, in order: `step 1`, `record t1.c0`, `call t1.c0`. */
  readonly log: string[] = [];
  readonly steps: ModelStepInput[] = [];
  readonly records: StretchRecord[] = [];
  readonly completed: StretchRecord[] = [];
  readonly failed: unknown[] = [];
  readonly environment: MockActivityEnvironment;
  readonly #options: BenchOptions;

  constructor(options: BenchOptions) {
    this.#options = options;
    const execution = { workflowId: 'run/1', runId: 'run-1' };
    this.environment = new MockActivityEnvironment(
      { taskToken: TOKEN, workflowExecution: execution, heartbeatDetails: options.left },
      // The default logger would write every expected failure to the console.
      { logger: new DefaultLogger('ERROR') },
    );
  }

  async run(input: StretchInput = stretchInput()): Promise<StretchResult> {
    const { server = () => endedAs() } = this.#options;
    const callsServers = !('server' in this.#options) || this.#options.server !== undefined;
    const stretch = coded(
      createStretch({
        modelStep: async (step) => await this.#answer(step),
        believesRecords: this.#options.believesRecords ?? true,
        callTool: !callsServers
          ? undefined
          : async (call) => {
              this.log.push(`call ${call.callId}`);
              return await server(call);
            },
        completion: {
          heartbeat: async (token, record) => await this.#told(token, record),
          complete: async (token, answer) => {
            assertOurs(token);
            // Sound: it is what the activity would return.
            const record = answer as StretchRecord;
            await this.#options.complete?.(record);
            this.completed.push(record);
          },
          fail: async (token, error) => {
            assertOurs(token);
            this.failed.push(await Promise.resolve(error));
          },
        },
        cancelsCalls: this.#options.cancelsCalls ?? (async () => await Promise.resolve(false)),
      }),
    );
    return await this.environment.run<[StretchInput], StretchResult, typeof stretch>(stretch, input);
  }

  /** Shuts the worker down, as Temporal's SDK tells an activity. */
  shutDown(): void {
    this.environment.cancel('WORKER_SHUTDOWN', new ActivityCancellationDetails({ workerShutdown: true }));
  }

  /** The SDK misses the heartbeats that did not go through it. */
  takeForOver(): void {
    this.environment.cancel('TIMED_OUT', new ActivityCancellationDetails({ timedOut: true }));
  }

  async #answer(step: ModelStepInput): Promise<ModelStepResult> {
    this.log.push(`step ${step.turn}`);
    this.steps.push(step);
    const answer = this.#options.model[this.steps.length - 1];
    if (answer === undefined) throw new Error(`The model was not to be asked for step ${step.turn}.`);
    if (answer instanceof Error) throw answer;
    return typeof answer === 'function' ? await answer(step) : answer;
  }

  async #told(token: Uint8Array, record: StretchRecord): Promise<void> {
    assertOurs(token);
    // The copy has the form that Temporal keeps.
    this.records.push(structuredClone(record));
    const calls = record.turns.at(-1)?.calls?.map(({ callId }) => callId) ?? [];
    this.log.push(['record', ...calls].join(' '));
    await this.#options.heartbeat?.(record);
    this.log.push('taken');
  }
}

const TOKEN = Buffer.from('the attempt');

function assertOurs(token: Uint8Array): void {
  if (!TOKEN.equals(token)) throw new Error('This is the token of another attempt.');
}
