/** After `temporal workflow reset` nothing that was once approved runs again by itself (INV-G2, F38). */
import { describe, expect, test } from '@jest/globals';
import { assertIntact, type RunHandle } from '../../client/index.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { ACTIVITIES } from '../../contracts/names.ts';
import { Script } from '../../contracts/schemas/script.ts';
import { ledgerShows, outcomes, outcomesAtEnd, refusalOf } from '../support/world/run-record.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { type HistoryEvent, resetRun } from '../support/world/reset.ts';
import { decisionOn, openRequests, requestAfter, startWorld, useWorld } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const bank = during(() => startRecordingServer());
const world = useWorld(() => {
  const credentials = { kind: 'none' } as const;
  const policy = { deadlineSeconds: 600, servers: { open: { default: 'allow' } } } as const;
  const servers = {
    bank: { url: bank.url, credentials },
    open: { url: bank.url, credentials, repeatable: ['lookup'] },
  };
  return { config: { policy, servers } };
});

const call = (tool: string, purpose: string) => ({ tool, arguments: { purpose } });
const END = { text: 'done' };

const isAcceptedUpdate = ({ workflowExecutionUpdateAcceptedEventAttributes: accepted }: HistoryEvent): boolean =>
  accepted !== undefined && accepted !== null;
const isSignal = ({ workflowExecutionSignaledEventAttributes: signaled }: HistoryEvent): boolean =>
  signaled !== undefined && signaled !== null;

async function first(run: RunHandle) {
  return (await openRequests(run))[0];
}

/** Waits until a request of this execution is open. */
async function requestIn(run: RunHandle, runId: string, generation = 1) {
  return await until(
    async () =>
      (await openRequests(run)).find((request) => request.runId === runId && request.generation >= generation),
    { what: `a request of execution ${runId}` },
  );
}

const isDispatch = ({ activityTaskScheduledEventAttributes: scheduled }: HistoryEvent): boolean =>
  scheduled?.activityType?.name === ACTIVITIES.callTool;

/** What was sent before the reset may have run: whoever knows says that it is sent again. */
async function sendAgain(run: RunHandle, callId = 't1.c0'): Promise<void> {
  await run.resolveOutcome(resolutionOf(await lostCall(run, callId), 'ann', { kind: 'retry' }));
}

test('to before the decision: the old one is refused, a fresh one runs the call, once somebody has said that it runs again', async () => {
  const run = await world.start([{ calls: [call('bank/pay', 'before')] }, END]);
  const shown = await first(run);
  const decision = decisionOn(shown, 'ann');
  await run.decide(decision);
  await run.result();
  expect(bank.callsFor('before')).toHaveLength(1);

  const revived = await resetRun(world.client, { workflowId: run.runId }, isAcceptedUpdate);
  const again = await requestIn(run, revived);
  // An update of ours is answered only after what Temporal applied again.
  expect(await run.advance()).toMatchObject({ runId: revived, status: 'waiting' });
  expect(bank.callsFor('before')).toHaveLength(1);
  expect(again).toMatchObject({ callId: shown.callId, arguments: shown.arguments });
  expect(again.digest).not.toBe(shown.digest);
  expect(await refusalOf(run.decide(decision))).toMatchObject({ code: 'DECISION_STALE_RUN' });
  expect(await refusalOf(run.decide(decisionOn(shown, 'ann')))).toMatchObject({ code: 'DECISION_STALE_RUN' });
  expect(bank.callsFor('before')).toHaveLength(1);

  await run.decide(decisionOn(again, 'ann'));
  const asked = await lostCall(run);
  expect(asked.about).toMatchObject({ kind: 'outcome', message: expect.stringContaining('says that it succeeded') });
  expect(bank.callsFor('before')).toHaveLength(1);
  await sendAgain(run);
  await run.result();
  expect(bank.callsFor('before')).toHaveLength(2);
  assertIntact(await run.ledger(), run.runId);
});

test('who waits for its result waits on, and who follows it is told to begin anew', async () => {
  const following = await world.start([{ calls: [call('bank/pay', 'followed')] }, END]);
  const result = following.result();
  const seen: number[] = [];
  const followed = (async () => {
    for await (const { seq } of following.watch()) seen.push(seq);
  })();
  const refused = refusalOf(followed);
  await first(following);
  await until(async () => seen.length > 0 && seen.length >= (await following.state()).ledgerLength);

  const revived = await resetRun(world.client, { workflowId: following.runId }, 'first');
  expect(await refused).toMatchObject({ code: 'RUN_RESET', facts: { runId: following.runId } });
  await following.decide(decisionOn(await requestIn(following, revived), 'ann', 'reject'));
  expect(await result).toMatchObject({ status: 'completed', output: 'done' });
  const anew: number[] = [];
  for await (const { seq } of following.watch()) anew.push(seq);
  expect(anew).toEqual((await following.ledger()).map(({ seq }) => seq));
});

test('to before a decision by signal: it is applied again, and the dispatch asks anew', async () => {
  const run = await world.start([{ calls: [call('bank/pay', 'signal')] }, END]);
  const shown = await first(run);
  // A workflow task after the request was opened, to reset to.
  await run.say({ messageId: 'm1', text: 'Take your time.', from: 'ann' });
  await world.client.workflow.getHandle(run.runId).signal('decide', decisionOn(shown, 'ann'));
  await run.result();
  const revived = await resetRun(world.client, { workflowId: run.runId }, isSignal);
  const again = await requestIn(run, revived, 2);
  expect(again.reopenedBecause).toContain('DECISION_STALE_RUN');
  // As long as policy gave it the first time.
  expect(Date.parse(again.deadline) - Date.parse(again.openedAt)).toBe(600_000);
  expect(bank.callsFor('signal')).toHaveLength(1);
  await run.decide(decisionOn(again, 'ann'));
  await sendAgain(run);
  await run.result();
  expect(bank.callsFor('signal')).toHaveLength(2);
});

test.each([
  ['approved', 'bank'],
  ['allowed by policy', 'open'],
] as const)(
  'to while a call that was %s is under way: it is not sent again, and a person is asked who is told so',
  async (_what, server) => {
    const purpose = `flight-${server}`;
    const run = await world.start([{ calls: [call(`${server}/slow`, purpose)] }, END]);
    if (server === 'bank') await run.decide(decisionOn(await first(run), 'ann'));
    await bank.held(purpose);
    await run.say({ messageId: 'm1', text: 'Hurry.', from: 'ann' });
    const revived = await resetRun(world.client, { workflowId: run.runId });
    const again = await requestIn(run, revived);
    expect(again.reopenedBecause).toContain('may have been sent');
    expect(bank.callsFor(purpose)).toHaveLength(1);
    bank.release(purpose);
    await run.decide(decisionOn(again, 'ann'));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor(purpose)).toHaveLength(2);
  },
);

test('to after the decision, with the dispatch not yet begun: the call is asked anew', async () => {
  const shared = { engine: world.engine, bundle: world.bundle };
  const config = {
    taskQueue: 'runs-only',
    servers: { far: { url: bank.url, credentials: { kind: 'none' }, taskQueue: 'far' } },
  } as const;
  const runs = await startWorld({ ...shared, config, role: 'runs' });
  const tools = await startWorld({ ...shared, config, role: 'tools' });
  try {
    const run = await runs.start([{ calls: [call('far/pay', 'queued')] }, END]);
    const decision = decisionOn(await first(run), 'ann');
    await tools.workers.stop();
    await run.decide(decision);
    await ledgerShows(run, 'dispatched');
    await run.say({ messageId: 'm1', text: 'Hurry.', from: 'ann' });
    const revived = await resetRun(world.client, { workflowId: run.runId });
    await tools.restartWorkers();
    const again = await requestIn(run, revived);
    // Its acceptance lies before the reset: sent again it gets its first answer, and does nothing.
    expect(await run.decide(decision)).toMatchObject({ status: 'approved' });
    // Under another update id the run itself is asked, and says that the decision no longer counts.
    const raw = world.client.workflow.getHandle(run.runId).executeUpdate('decide', { args: [decision] });
    expect(codedFailureIn(await raw.catch((error: unknown) => error))?.code).toBe('DECISION_STALE_RUN');
    expect(await refusalOf(run.decide({ ...decision, decisionId: 'the-same-again' }))).toMatchObject({
      code: 'DIGEST_MISMATCH',
    });
    expect(await openRequests(run)).toMatchObject([{ digest: again.digest }]);
    expect(bank.callsFor('queued')).toEqual([]);
    await run.decide(decisionOn(again, 'ann'));
    await run.result();
    expect(bank.callsFor('queued')).toHaveLength(1);
  } finally {
    await tools.stop();
    await runs.stop();
  }
});

test('in a later execution of a chain: decisions of that execution are stale, and so are those made before it', async () => {
  const run = await world.start([{ calls: [call('bank/pay', 'chain'), call('bank/pay', 'chain')] }, END]);
  const requests = await openRequests(run, 2);
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  const rolled = await requestAfter(run, requests[0]);
  // Shown before the roll, decided after it: counts.
  const early = decisionOn(requests[0], 'ann');
  await run.decide(early);
  await ledgerShows(run, 'outcome', 't1.c0');
  const revived = await resetRun(world.client, { workflowId: run.runId }, isAcceptedUpdate);
  const again = await requestIn(run, revived);
  expect(await refusalOf(run.decide(early))).toMatchObject({ code: 'DECISION_STALE_RUN' });
  expect(await refusalOf(run.decide(decisionOn(rolled, 'ann')))).toMatchObject({ code: 'DECISION_STALE_RUN' });
  expect(bank.callsFor('chain')).toHaveLength(1);
  await run.decide(decisionOn(again, 'ann'));
  await sendAgain(run);
  await ledgerShows(run, 'outcome', 't1.c0');
  expect(bank.callsFor('chain')).toHaveLength(2);
});

describe('what was sent in the part that a reset discards, with nobody asked', () => {
  test('is not sent again where it may run only once: a person says what became of it (INV-X1)', async () => {
    const run = await world.start([{ calls: [call('open/pay', 'discarded')] }, END]);
    await run.result();
    expect(bank.callsFor('discarded')).toHaveLength(1);
    await resetRun(world.client, { workflowId: run.runId }, isDispatch);
    const asked = await lostCall(run);
    expect(asked).toMatchObject({ callId: 't1.c0', arguments: { purpose: 'discarded' }, about: { attempt: 1 } });
    await run.resolveOutcome(resolutionOf(asked, 'ann', { kind: 'succeeded', result: 'It is paid.' }));
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor('discarded')).toHaveLength(1);
    assertIntact(await run.ledger(), run.runId);
  });

  test('is sent again where the operator calls it repeatable', async () => {
    const run = await world.start([{ calls: [call('open/lookup', 'repeated')] }, END]);
    await run.result();
    // It left within the first stretch.
    await resetRun(world.client, { workflowId: run.runId }, 'first');
    await run.result();
    expect(bank.callsFor('repeated')).toHaveLength(2);
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  });

  test('is asked about where it left within a stretch, and the operator no longer calls it repeatable', async () => {
    const run = await world.start([{ calls: [call('open/lookup', 'revoked')] }, END]);
    await run.result();
    const { open } = world.config.servers;
    if (open === undefined) throw new Error('no server');
    const { repeatable } = open;
    open.repeatable = [];
    try {
      await resetRun(world.client, { workflowId: run.runId }, 'first');
      const asked = await lostCall(run);
      expect(asked.about).toMatchObject({ message: expect.stringContaining('says that it succeeded') });
      await run.resolveOutcome(resolutionOf(asked, 'ann', { kind: 'succeeded', result: 'It was found.' }));
      await run.result();
      expect(bank.callsFor('revoked')).toHaveLength(1);
    } finally {
      open.repeatable = repeatable;
    }
  });

  test('counts for a call that does the same under another id, and for one only', async () => {
    const pay = call('open/pay', 'moved');
    const { agent } = world.spec([{ calls: [pay] }, END]);
    const run = await world.start([END], { agent });
    await run.result();
    // The model proposes otherwise, when it is asked again.
    const provider = world.config.models[agent.model];
    if (provider?.provider !== 'scripted') throw new Error('no script');
    const { steps } = Script.parse({ steps: [{ calls: [call('open/lookup', 'moved'), pay, pay] }] });
    provider.script.steps.splice(0, 1, ...steps);
    await resetRun(world.client, { workflowId: run.runId }, 'first');
    const asked = await lostCall(run, 't1.c1');
    expect(asked.about).toMatchObject({ message: expect.stringContaining('The same call, then t1.c0') });
    await ledgerShows(run, 'outcome', 't1.c2');
    expect(bank.callsFor('moved', 'pay')).toHaveLength(2);
    await run.resolveOutcome(resolutionOf(asked, 'ann', { kind: 'succeeded', result: 'It is paid.' }));
    await run.result();
    expect(bank.callsFor('moved', 'pay')).toHaveLength(2);
  });

  test('counts in whichever execution it was: one that was reset from the same, and after the run has continued as new', async () => {
    const run = await world.start([{ calls: [call('bank/pay', 'beside')] }, END]);
    const base = (await first(run)).runId;
    await run.say({ messageId: 'm1', text: 'Take your time.', from: 'ann' });
    const one = await resetRun(world.client, { workflowId: run.runId, runId: base });
    await run.decide(decisionOn(await requestIn(run, one), 'ann'));
    await run.result();
    expect(bank.callsFor('beside')).toHaveLength(1);
    // Neither of the two resets names the other.
    const two = await resetRun(world.client, { workflowId: run.runId, runId: base });
    await requestIn(run, two);
    await world.client.workflow.getHandle(run.runId).signal('nudge');
    const rolled = await requestAfter(run, { runId: two });
    await run.decide(decisionOn(rolled, 'ann'));
    const asked = await lostCall(run);
    expect(asked.about).toMatchObject({ message: expect.stringContaining(one) });
    expect(bank.callsFor('beside')).toHaveLength(1);
    await sendAgain(run);
    await run.result();
    expect(bank.callsFor('beside')).toHaveLength(2);
  });
});
