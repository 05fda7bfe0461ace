/** A watch outlasts what passes, and nothing else (INV-D3). */
import { expect, test } from '@jest/globals';
import { Engine } from '../../client/engine/engine.ts';
import { type Patience, PatientReader, TimeIsUp } from '../../client/run/watch.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import { fakeClient } from '../support/servers/fake-client.ts';
import { until } from '../support/until.ts';

function readerWith(patience: Patience, callMs = 60_000): PatientReader {
  return new PatientReader(new Engine(fakeClient(), callMs), 'run', patience);
}

/** Fails with these codes, one after the other, then answers. */
function failing(...codes: readonly ErrorCode[]) {
  const left = [...codes];
  return async () => {
    const code = left.shift();
    if (code !== undefined) throw new CountersignError(code, `It was ${code}.`);
    return 'answer';
  };
}

test.each<ErrorCode>(['ENGINE_UNAVAILABLE', 'RESULT_UNCERTAIN', 'RUN_STUCK'])(
  '%s is waited out, and told once for each pause',
  async (code) => {
    const told: string[] = [];
    const reader = readerWith({ onPause: (trouble) => void told.push(trouble.code) });
    expect(await reader.read(failing(code, code))).toBe('answer');
    expect(told).toHaveLength(1);
    expect(await reader.read(failing(code))).toBe('answer');
    expect(told).toHaveLength(2);
  },
);

test.each<ErrorCode>(['RUN_NOT_FOUND', 'ARTIFACT_MISSING', 'INTERNAL', 'SETUP_INCOMPLETE'])(
  '%s is not',
  async (code) => {
    await expect(readerWith({}).read(failing(code))).rejects.toMatchObject({ code });
  },
);

test('without a first answer it ends with the deadline of a call, and says why', async () => {
  const never = async () => await failing('RUN_STUCK')();
  await expect(readerWith({}, 1_000).read(never)).rejects.toMatchObject({ code: 'RUN_STUCK' });
});

test('a watch that may last for long does not wait that long for its first answer', async () => {
  for (const code of ['ENGINE_UNAVAILABLE', 'RUN_STUCK'] as const) {
    const never = async () => await failing(code)();
    await expect(readerWith({ deadlineMs: 3_600_000 }, 1_000).read(never)).rejects.toMatchObject({ code });
  }
});

test('what Temporal itself answers keeps no watch of a stuck run going; an answer of a worker does', async () => {
  const never = async () => await failing('RUN_STUCK')();
  const stuck = readerWith({}, 1_000);
  await stuck.poll(failing(), 1);
  await expect(stuck.read(never)).rejects.toMatchObject({ code: 'RUN_STUCK' });
  const known = readerWith({}, 50);
  await known.read(failing());
  const codes = Array<ErrorCode>(4).fill('RUN_STUCK');
  expect(await known.read(failing(...codes))).toBe('answer');
});

test('at its own deadline it ends: with the trouble where there is one, else with none', async () => {
  const never = async () => await failing('ENGINE_UNAVAILABLE')();
  const troubled = readerWith({ deadlineMs: 1_000 });
  await troubled.read(failing());
  await expect(troubled.read(never, 1)).rejects.toMatchObject({ code: 'ENGINE_UNAVAILABLE' });
  await expect(readerWith({ deadlineMs: 0 }).read(failing())).rejects.toBeInstanceOf(TimeIsUp);
});

test('an attempt that the deadline cuts short is no trouble of its own', async () => {
  const reader = readerWith({ deadlineMs: 1_000 });
  const end = Date.now() + 1_000;
  await reader.read(failing());
  const cut = async () => {
    await until(() => Date.now() > end);
    throw new CountersignError('RESULT_UNCERTAIN', 'No answer in time.');
  };
  await expect(reader.read(cut)).rejects.toBeInstanceOf(TimeIsUp);
});

test('a signal ends it at once, also in a pause', async () => {
  const controller = new AbortController();
  const reader = readerWith({ signal: controller.signal, onPause: () => controller.abort() });
  await expect(reader.read(failing('ENGINE_UNAVAILABLE'))).rejects.toMatchObject({ name: 'AbortError' });
  await expect(reader.read(failing())).rejects.toMatchObject({ name: 'AbortError' });
});

test('a connection that was closed on this side ends it', async () => {
  const closed = async () => {
    throw Object.assign(new Error('1 CANCELLED: The connection was closed.'), {
      code: 1,
      details: 'The connection was closed.',
      metadata: {},
    });
  };
  await expect(readerWith({}).read(closed)).rejects.toMatchObject({ code: 'ENGINE_UNAVAILABLE' });
});
