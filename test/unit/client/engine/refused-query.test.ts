/** A caller of the library never sees that a query was refused (docs/adr/0044), unless it is until its deadline. */
import { expect, jest, test } from '@jest/globals';
import { QueryNotRegisteredError } from '@temporalio/client';
import { Engine } from '../../../../client/engine/engine.ts';
import { ZONE_KEY_GONE } from '../../../../client/engine/trouble.ts';
import { REFUSED_QUERY } from '../../../../contracts/failure.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';

/** What Temporal's client makes of a failed query (`@temporalio/client`). */
const refused = (): Error => new QueryNotRegisteredError(REFUSED_QUERY, 3);

function engineOf(deadlines: number[], deadlineMs: number): Engine {
  return new Engine(fakeClient({}, deadlines), deadlineMs);
}

async function rejecting(error: Error): Promise<never> {
  throw error;
}

test('it is asked again within the deadline of the one call', async () => {
  let now = 1_000_000;
  const clock = jest.spyOn(Date, 'now').mockImplementation(() => now);
  try {
    const deadlines: number[] = [];
    const answers = [refused(), refused(), 'answer'];
    const answer = await engineOf(deadlines, 5_000).read('run', async () => {
      now += 1_000;
      const next = answers.shift();
      if (next instanceof Error) throw next;
      return next;
    });
    expect(answer).toBe('answer');
    expect(deadlines).toEqual([1_005_000, 1_005_000, 1_005_000]);
  } finally {
    clock.mockRestore();
  }
});

test('what is refused each time is told as something that passes', async () => {
  const reading = engineOf([], 40).read('run', () => rejecting(refused()));
  await expect(reading).rejects.toMatchObject({
    code: 'ENGINE_UNAVAILABLE',
    facts: { runId: 'run' },
    message: expect.stringContaining('between two workflow tasks each time'),
  });
});

test('nobody is asked when the time is over: that would be told as a worker who is away', async () => {
  let asked = 0;
  const reading = engineOf([], 10).read('run', () => {
    asked += 1;
    return rejecting(refused());
  });
  await expect(reading).rejects.toMatchObject({ message: expect.stringContaining('between two workflow tasks') });
  expect(asked).toBe(1);
});

test('an update is never asked again by this', async () => {
  let sent = 0;
  const update = engineOf([], 1_000).update('run', undefined, async () => {
    sent += 1;
    throw refused();
  });
  await expect(update).rejects.toMatchObject({ code: 'INTERNAL' });
  expect(sent).toBe(1);
});

test('a page that the worker cannot decrypt is asked for with other keys than it has, which is told', async () => {
  const says = 'from is encrypted, and encryption.keys does not have its key: ask with two numbers, from and to.';
  const reading = engineOf([], 10).read('run', () => rejecting(new QueryNotRegisteredError(says, 3)));
  await expect(reading).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
    facts: { path: 'encryption.keys' },
    message: expect.stringContaining('Give this client the encryption.keys that the workers have'),
  });
});

test('a key of the zone may have been removed too early, or the build is at fault: both ways out are told', async () => {
  const says = `What this execution was given was proven when it came, and is not now: ${ZONE_KEY_GONE} of this worker, or this build asks something else.`;
  const reading = engineOf([], 10).read('run', () => rejecting(new QueryNotRegisteredError(says, 3)));
  await expect(reading).rejects.toMatchObject({
    code: 'RUN_STUCK',
    message: expect.stringMatching(
      /^Run run can neither .+ or its build asks something else\. If a key was removed, put it back, as the last of trust\.zone\.keys of all workers .+ countersign show run\. .+ countersign recover run/,
    ),
  });
});
