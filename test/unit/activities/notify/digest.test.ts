/** The activity that sends a digest (I-1, INV-D3, INV-S1): what it reads of runs, and what it says where they do not answer. */
import { expect, test } from '@jest/globals';
import { createSendDigest, type DigestParts, type ReportingRun } from '../../../../activities/notify/digest.ts';
import { type Message, undelivered } from '../../../../activities/notify/port.ts';
import { createScrubber } from '../../../../activities/scrubbing/scrubber.ts';
import type { Gathered } from '../../../../contracts/schemas/notify.ts';
import type { DigestInput } from '../../../../contracts/wire/notify.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { ledgerOf, openedFact, verdictFact } from '../../../support/builders/ledger.ts';
import { withCode } from '../../../support/refusal.ts';

const HEX = 'a'.repeat(64);
const BY_DIGEST = {
  namespace: 'default',
  workflowType: 'messageDigest',
  workflowId: 'digest/it',
  runId: 'first',
  attempt: 1,
};

function pointer(run: string, over: Partial<Gathered> = {}): Gathered {
  return { key: HEX, run, event: 'opened', calls: [{ callId: 't1.c0', generation: 1 }], ...over };
}

function input(gathered: readonly Gathered[], over: Partial<DigestInput> = {}): DigestInput {
  return { tenant: 'default', channel: 'it', to: { ids: ['ann'], groups: [] }, round: 1, gathered, left: 0, ...over };
}

function reporting(workflowId: string, over: Partial<ReportingRun> = {}): ReportingRun {
  const run = { namespace: 'default', workflowId, initiator: { id: 'ida', tenant: 'default' } };
  return { run, requests: [approvalRequest({ key: 'canary-secret' })], ledger: async () => [], ...over };
}

function sending(over: Partial<DigestParts> = {}) {
  const sent: Message[] = [];
  const told: object[] = [];
  const send = createSendDigest({
    channels: { it: { send: async (each) => ({ thread: String(sent.push(each)) }) } },
    page: 'https://approvals.example.com/{run}#{call}',
    scrub: (value) => createScrubber(['canary-secret']).value(value),
    tell: (each) => told.push(each),
    scheduler: () => BY_DIGEST,
    policy: () => ({ notify: [{ channel: 'it' }] }),
    readRun: async (run) => reporting(run),
    ...over,
  });
  return { send, sent, told };
}

test('INV-S1: a digest has a link for each request of each run, one id, and no secret', async () => {
  const { send, sent, told } = sending();
  await send(input([pointer('run/1'), pointer('run/2'), pointer('run/1')]));
  expect(sent).toMatchObject([
    {
      id: expect.stringMatching(/^msg_[0-9a-f]{64}$/),
      to: { ids: ['ann'], groups: [] },
      repeated: false,
      requests: [
        { event: 'opened', run: { workflowId: 'run/1' }, url: 'https://approvals.example.com/run%2F1#t1.c0' },
        { event: 'opened', run: { workflowId: 'run/2' }, url: 'https://approvals.example.com/run%2F2#t1.c0' },
      ],
    },
  ]);
  expect(sent[0]).not.toHaveProperty('single');
  expect(sent[0]).not.toHaveProperty('more');
  expect(JSON.stringify(sent)).not.toContain('canary');
  expect(told).toEqual([{ channel: 'it', event: 'digest', result: 'sent' }]);
});

test('INV-D3: each try has the same id, the next message of the digest another', async () => {
  const first = sending();
  await first.send(input([pointer('run/1')]));
  const again = sending({ scheduler: () => ({ ...BY_DIGEST, attempt: 2 }) });
  await again.send(input([pointer('run/1'), pointer('run/2')]));
  await again.send(input([pointer('run/1')], { round: 2 }));
  const [one, other] = again.sent;
  expect([one?.id, one?.repeated]).toEqual([first.sent[0]?.id, true]);
  expect(other?.id).not.toBe(one?.id);
});

test('a digest names the first fifty requests, and says how many more there are', async () => {
  const { send, sent } = sending();
  await send(
    input(
      Array.from({ length: 60 }, (_, index) => pointer(`run/${index}`)),
      { left: 3 },
    ),
  );
  expect(sent[0]?.requests.map(({ run }) => run.workflowId)).toEqual(
    Array.from({ length: 50 }, (_, index) => `run/${index}`),
  );
  expect(sent[0]?.more).toBe(13);
});

test('INV-D3: what was decided meanwhile is not told, and nothing is sent where nothing is left', async () => {
  const { send, sent, told } = sending({
    readRun: async (run) => reporting(run, { requests: [{ ...approvalRequest(), status: 'approved' }] }),
  });
  await send(input([pointer('run/1')]));
  expect([sent, told]).toEqual([[], []]);
});

test.each<[string, Partial<DigestParts>, Partial<DigestInput>]>([
  ['a run that this deployment has not', { readRun: async () => undefined }, {}],
  ['a run of another tenant', {}, { tenant: 'acme' }],
  ['people who may not decide', {}, { to: { ids: ['eve'], groups: [] } }],
  ['a channel that policy does not use for it', { policy: () => ({ notify: [{ channel: 'other' }] }) }, {}],
])('a forged pointer tells nothing: %s', async (_, over, of) => {
  const { send, sent } = sending(over);
  await send(input([pointer('run/1')], of));
  expect(sent).toEqual([]);
});

test('only a digest has one sent', async () => {
  const { send, sent } = sending({ scheduler: () => ({ ...BY_DIGEST, workflowType: 'agentRun' }) });
  await expect(send(input([pointer('run/1')]))).rejects.toMatchObject({ code: 'MESSAGE_REFUSED' });
  expect(sent).toEqual([]);
});

test('a run that does not answer is waited for; then it is counted, or the digest fails, and nobody is held up', async () => {
  const readRun = async (run: string) => {
    if (run === 'away') throw new Error('away');
    return reporting(run);
  };
  const tries = (attempt: number, ...runs: readonly string[]) => {
    const { send, sent, told } = sending({ readRun, scheduler: () => ({ ...BY_DIGEST, attempt }) });
    return { sent, told, trying: send(input(runs.map((run) => pointer(run)))) };
  };
  const failed = [{ channel: 'it', event: 'digest', result: 'failed' }];
  const sixth = tries(6, 'run/1', 'away');
  const away = { code: 'MESSAGE_UNDELIVERED', message: expect.stringContaining('do not answer: away.') };
  await expect(sixth.trying).rejects.toMatchObject(away);
  expect(sixth.told).toEqual(failed);
  const seventh = tries(7, 'run/1', 'away');
  await seventh.trying;
  expect(seventh.sent).toMatchObject([{ requests: [{ run: { workflowId: 'run/1' } }], more: 1 }]);
  const alone = tries(7, 'away');
  await expect(alone.trying).rejects.toMatchObject({ code: 'MESSAGE_REFUSED' });
  expect(alone.told).toEqual(failed);
});

test('messages for which a digest had no room are never passed over in silence', async () => {
  const { send, told } = sending({ readRun: async () => undefined });
  await expect(send(input([pointer('run/1')], { left: 700 }))).rejects.toMatchObject(
    withCode('MESSAGE_REFUSED', '700 messages of runs'),
  );
  expect(told).toEqual([{ channel: 'it', event: 'digest', result: 'failed' }]);
});

test('how a request closed is read in the ledger where the run has gone on', async () => {
  const request = { callId: 't1.c0', generation: 1 };
  const closed = { kind: 'request.closed', ...request, status: 'expired' } as const;
  const entries = ledgerOf([verdictFact(), openedFact(), closed]);
  const { send, sent } = sending({
    readRun: async (run) => reporting(run, { requests: [], ledger: async () => entries }),
  });
  await send(input([pointer('run/1', { event: 'closed' }), pointer('run/2')]));
  expect(sent).toMatchObject([
    { requests: [{ event: 'closed', run: { workflowId: 'run/1' }, tool: 'pay', closed: { status: 'expired' } }] },
  ]);
});

test('a failing channel is told to the metrics', async () => {
  const away = async () => {
    throw undelivered('it', 'is away');
  };
  const { send, told } = sending({ channels: { it: { send: away } } });
  await expect(send(input([pointer('run/1')]))).rejects.toMatchObject({ code: 'MESSAGE_UNDELIVERED' });
  expect(told).toEqual([{ channel: 'it', event: 'digest', result: 'failed' }]);
});

test('buttons of a digest bind what each run asks when it is read', async () => {
  const sent: Message[] = [];
  const channel = { hasButtons: true, send: async (each: Message) => ({ thread: String(sent.push(each)) }) };
  const { send } = sending({
    channels: { it: channel },
    readRun: async (run) => reporting(run, { requests: [approvalRequest()] }),
  });
  await send(input([pointer('run/1')]));
  const { digest, runId } = approvalRequest();
  expect(sent[0]?.requests[0]?.answerable).toEqual({ digest, runId, isWhole: true });
});
