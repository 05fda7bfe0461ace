/** Failures leave an activity with their codes. */
import { describe, expect, test } from '@jest/globals';
import { ApplicationFailure, type Logger } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { coded } from '../../../../activities/kit/activity.ts';
import { CountersignError } from '../../../../contracts/errors.ts';
import { failureOf } from '../../../../contracts/failure.ts';
import { Undecodable } from '../../../../contracts/payload-converter.ts';

const noop = (): void => undefined;

const thrownBy = async (error: Error): Promise<unknown> =>
  await new MockActivityEnvironment({}, { logger: loggedLines().logger })
    .run(
      coded(async () => {
        throw error;
      }),
      undefined,
    )
    .then(
      () => undefined,
      (reason: unknown) => reason,
    );

function loggedLines(): { readonly lines: { message: string; meta: unknown }[]; readonly logger: Logger } {
  const lines: { message: string; meta: unknown }[] = [];
  const warn = (message: string, meta: unknown): void => void lines.push({ message, meta });
  return { lines, logger: { warn, trace: noop, debug: noop, info: noop, error: noop, log: noop } };
}

describe('a failure of an activity', () => {
  test.each([
    ['MODEL_UNKNOWN', true],
    ['ARTIFACT_MISSING', false],
  ] as const)('takes from its code whether it is tried again (%s)', async (code, nonRetryable) => {
    const failure = await thrownBy(new CountersignError(code, 'No.', { path: 'a' }));
    expect(failure).toBeInstanceOf(ApplicationFailure);
    expect(failure).toMatchObject({ type: code, nonRetryable, message: 'No.', details: [{ path: 'a' }] });
  });

  test('that already has its code keeps what it says itself', async () => {
    const failure = failureOf('MODEL_UNKNOWN', 'Not here.', {}, 7, true);
    expect(await thrownBy(failure)).toBe(failure);
    expect(failure).toMatchObject({ nonRetryable: false, nextRetryDelay: 7 });
  });

  test('is told in the log: what it was about, why, which try, and since when', async () => {
    const { lines, logger } = loggedLines();
    const environment = new MockActivityEnvironment({ attempt: 3, activityType: 'discoverTools' }, { logger });
    const away = coded(async (_: object) => {
      throw new CountersignError('DISCOVERY_FAILED', 'Server "files" is away.');
    });
    await expect(environment.run(away, { server: { name: 'files' } })).rejects.toMatchObject({
      type: 'DISCOVERY_FAILED',
    });
    // The SDK has a line of its own.
    expect(lines.filter(({ message }) => message.startsWith('A step'))).toMatchObject([
      {
        message: 'A step failed; it is tried again.',
        meta: {
          step: 'discoverTools',
          server: 'files',
          code: 'DISCOVERY_FAILED',
          attempt: 3,
          reason: 'Server "files" is away.',
        },
      },
    ]);
  });

  test.each([
    ['with a code', new CountersignError('MODEL_REJECTED', 'No.')],
    ['without one', new TypeError('No.')],
  ])('%s that another activity passes on is told once, by the inner one', async (_, error) => {
    const { lines, logger } = loggedLines();
    const environment = new MockActivityEnvironment({ activityType: 'stretch' }, { logger });
    const inner = coded(async (_step: object) => {
      throw error;
    });
    const outer = coded(async (input: object) => await inner({ ...input, model: 'main' }));
    await expect(environment.run(outer, {})).rejects.toThrow();
    expect(lines.filter(({ message }) => message.startsWith('A step'))).toMatchObject([{ meta: { model: 'main' } }]);
  });

  test('INV-S1: without a code leaves its name, nothing that it says, and is tried again', async () => {
    const failure = await thrownBy(
      new TypeError('Bearer secret-of-this-call', { cause: new Error('secret-of-this-call') }),
    );
    expect(failure).toBeInstanceOf(ApplicationFailure);
    expect(failure).toMatchObject({
      type: 'INTERNAL',
      nonRetryable: false,
      message: 'A fault without a code (TypeError); the log of the worker has the place.',
    });
    expect(JSON.stringify(failure)).not.toContain('secret-of-this-call');
    expect((failure as ApplicationFailure).cause).toBeUndefined();
  });
});

test('an activity that cannot read what it is given does nothing, and may be tried by another worker', async () => {
  let calls = 0;
  const activity = coded(async () => (calls += 1));
  await expect(activity(new Undecodable('sealed'))).rejects.toMatchObject({
    type: 'CONFIG_INVALID',
    nonRetryable: false,
    details: [{ path: 'encryption.keys' }],
  });
  expect(calls).toBe(0);
});
