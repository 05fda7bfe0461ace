/** Who is asked about one call of a run reads nothing of its other calls in the run's state (D-7), and artifacts are found after a reset. */
import { expect, test } from '@jest/globals';
import type { Countersign } from '../../../client/index.ts';
import type { Message } from '../../../contracts/schemas/transcript.ts';
import type { RunState } from '../../../contracts/schemas/run-state.ts';
import { Records } from '../../../gateway/inbox/records.ts';
import { approvalRequest } from '../../support/builders/approval-request.ts';
import { runState, START } from '../../support/builders/run.ts';
import { codeOf } from '../../support/refusal.ts';
import { asker, known } from '../../support/scenes/asking.ts';

const AT = new Date(START).toISOString();
const STATE = runState({
  turn: 2,
  calls: 3,
  standing: [
    { standing: 'd1', callId: 't1.c0', server: 'bank', tool: 'pay', scope: 'call', by: ['ben'], at: AT },
    { standing: 'd2', callId: 't2.c1', server: 'bank', tool: 'pay', scope: 'call', by: ['ben'], at: AT },
  ].map((decision) => ({ ...decision, scope: 'call' as const, arguments: { iban: 'DE89' } })),
  tasks: ['t2.c0', 't2.c1'].map((callId) => ({
    callId,
    server: 'bank',
    tool: 'wire',
    since: AT,
    next: AT,
    until: AT,
    polls: 1,
    message: 'to DE89',
  })),
});

function messageWith(sha256: string): Message {
  const part = {
    type: 'image' as const,
    mimeType: 'image/png',
    artifact: { sha256, bytes: 1, contentType: 'image/png' },
  };
  const outcome = { kind: 'succeeded' as const, result: { content: [part] } };
  return { role: 'tool', results: [{ callId: 't1.c0', providerCallId: 'p1', name: 'bank__pay', outcome }] };
}

/** What somebody reads who is asked about call t2.c1 and sees no other. */
async function readBy(person: Parameters<typeof asker>[0]): Promise<RunState> {
  const { row } = known();
  const shown = { request: { ...approvalRequest(), callId: 't2.c1' }, initiator: 'zoe', offers: [], remember: [] };
  const records = new Records({
    reading: {
      seen: async () => ({ run: row, initiator: row.initiator }),
      requestsOf: async () => [shown],
    },
    opened: { state: async () => STATE },
    // Sound: the state is read from what is open.
    countersign: {} as Countersign,
    artifacts: undefined,
  });
  return await records.state(asker(person), 'run-1');
}

/** Of a run in which this was said, and whose artifacts are all there. */
function recordsOf(
  conversation: (page: { readonly from: number; readonly most: number }) => Promise<readonly Message[]>,
  { now, execution = () => STATE.runId }: { readonly now?: () => number; readonly execution?: () => string } = {},
): Records {
  const { row } = known();
  return new Records(
    {
      reading: { seen: async () => ({ run: row, initiator: row.initiator }), requestsOf: async () => [] },
      opened: { state: async () => ({ ...STATE, runId: execution() }) },
      // Sound: only the conversation is read.
      countersign: { run: () => ({ conversation }) } as unknown as Countersign,
      artifacts: { get: async () => new Uint8Array(1) },
    },
    now,
  );
}

test('the arguments of a decision that stands, and the words of a task, are left out of other calls', async () => {
  const { standing = [], tasks = [], ...rest } = await readBy({ id: 'cyd' });
  expect(standing.map(({ standing: id, arguments: args }) => [id, args])).toEqual([
    ['d1', undefined],
    ['d2', { iban: 'DE89' }],
  ]);
  expect(tasks.map(({ callId, message }) => [callId, message])).toEqual([
    ['t2.c0', undefined],
    ['t2.c1', 'to DE89'],
  ]);
  expect(JSON.stringify(rest)).not.toContain('DE89');
});

test('who agreed reads what was agreed to, and initiators read everything', async () => {
  const args = (state: RunState) => state.standing?.map((decision) => decision.arguments);
  expect(args(await readBy({ id: 'ben' }))).toEqual([{ iban: 'DE89' }, { iban: 'DE89' }]);
  expect(await readBy({ id: 'zoe' })).toEqual(STATE);
});

test('an artifact of a run that was reset is found where the conversation was as long before', async () => {
  let said = messageWith('a'.repeat(64));
  let execution = 'first';
  let now = START;
  const conversation = async ({ from }: { readonly from: number }): Promise<readonly Message[]> =>
    await Promise.resolve(from === 0 ? [said] : []);
  const records = recordsOf(conversation, { now: () => now, execution: () => execution });
  const read = async (letter: string) =>
    (await records.artifact(asker({ id: 'zoe' }), 'run-1', letter.repeat(64))).bytes;
  expect(await read('a')).toHaveLength(1);
  said = messageWith('b'.repeat(64));
  execution = 'after the reset';
  now += 60_000;
  expect(await read('b')).toHaveLength(1);
  await expect(read('c')).rejects.toMatchObject({ code: 'ARTIFACT_UNKNOWN' });
});

test('a conversation without an end is not read for ever', async () => {
  let asked = 0;
  const conversation = async ({ most }: { readonly most: number }): Promise<readonly Message[]> => {
    asked += 1;
    if (asked > 1_000) throw new Error('read on and on');
    return await Promise.resolve(Array.from({ length: most }, () => messageWith('a'.repeat(64))));
  };
  const read = recordsOf(conversation).artifact(asker({ id: 'zoe' }), 'run-1', 'b'.repeat(64));
  await expect(read).rejects.toMatchObject({ code: 'ARTIFACT_UNKNOWN' });
});

test('what was read of a conversation is not read again, whatever hashes somebody asks for', async () => {
  const said = [messageWith('a'.repeat(64))];
  const from: number[] = [];
  let now = START;
  const conversation = async (asked: { readonly from: number }): Promise<readonly Message[]> => {
    from.push(asked.from);
    // Slower than an answer that there is none counts.
    now += 3_000;
    return await Promise.resolve(said.slice(asked.from));
  };
  const records = recordsOf(conversation, { now: () => now });
  const read = async (letter: string) =>
    await codeOf(records.artifact(asker({ id: 'zoe' }), 'run-1', letter.repeat(64)));
  expect(await Promise.all([read('b'), read('c')])).toEqual(['ARTIFACT_UNKNOWN', 'ARTIFACT_UNKNOWN']);
  expect(await read('d')).toBe('ARTIFACT_UNKNOWN');
  expect(from).toEqual([0]);
  said.push(messageWith('d'.repeat(64)));
  now += 3_000;
  expect((await records.artifact(asker({ id: 'zoe' }), 'run-1', 'd'.repeat(64))).bytes).toHaveLength(1);
  expect(from).toEqual([0, 1]);
});
