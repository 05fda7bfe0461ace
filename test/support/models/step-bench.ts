/** Runs the activity `modelStep`, wrapped as workers have it, in a mocked environment, and builds its input. */
import { expect } from '@jest/globals';
import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { coded } from '../../../activities/kit/activity.ts';
import { createModelStep, type ModelStepDependencies } from '../../../activities/models/model-step.ts';
import type { Model, ModelAnswer } from '../../../activities/models/port.ts';
import { defined } from '../../../contracts/defined.ts';
import type { ModelStepInput, ModelStepResult } from '../../../contracts/wire/run.ts';
import { EMPTY_DIGEST } from '../../../domain/run/journal.ts';
import type { OfferedTool } from '../../../domain/run/toolset.ts';
import { OPENING } from './request.ts';

const TOOL: OfferedTool = {
  modelName: 'files__read_file',
  server: 'files',
  serverUrl: 'https://files.test/mcp',
  definition: { name: 'read_file', title: 'Read', inputSchema: { type: 'object' } },
  hash: 'b'.repeat(64),
};

function stepInput(overrides: Partial<ModelStepInput> = {}): ModelStepInput {
  return {
    run: {
      namespace: 'default',
      workflowId: 'run-1',
      initiator: { id: 'ann', groups: [], tenant: 'default' },
      specHash: 'c'.repeat(64),
    },
    runId: 'execution-1',
    model: 'main',
    turn: 3,
    base: { length: 0, digest: EMPTY_DIGEST },
    tail: OPENING,
    toolset: [],
    ...overrides,
  };
}

export function answer(overrides: Partial<ModelAnswer> = {}): ModelAnswer {
  return {
    parts: [{ type: 'text', text: 'Hi.' }],
    usage: { inputTokens: 1, outputTokens: 1 },
    finish: 'stop',
    ...overrides,
  };
}

export function proposed(providerCallId: string, malformed?: string): ModelAnswer['parts'][number] {
  return {
    type: 'call',
    providerCallId,
    name: 'files__read_file',
    arguments: {},
    ...defined({ malformed }),
  };
}

export function saying(step: Model['step'] | ModelAnswer): Partial<ModelStepDependencies> {
  return {
    models: (name) => (name === 'main' ? { step: typeof step === 'function' ? step : async () => step } : undefined),
  };
}

export function failing(error: Error): () => Promise<never> {
  return async () => {
    throw error;
  };
}

/** The default logger would write every expected failure to the console. */
export function mockEnvironment(): MockActivityEnvironment {
  return new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR') });
}

export async function run(
  dependencies: Partial<ModelStepDependencies>,
  input: Partial<ModelStepInput> = {},
  environment = mockEnvironment(),
): Promise<ModelStepResult> {
  const step = coded(
    createModelStep({
      models: () => undefined,
      toolset: async () => [TOOL],
      transcript: async () => {
        throw new Error('not expected');
      },
      pause: async () => undefined,
      ...dependencies,
    }),
  );
  return environment.run<[ModelStepInput], ModelStepResult, typeof step>(step, stepInput(input));
}

export async function failureOfRun(...args: Parameters<typeof run>): Promise<ApplicationFailure> {
  const error: unknown = await run(...args).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ApplicationFailure);
  // Sound: asserted in the line before.
  return error as ApplicationFailure;
}
