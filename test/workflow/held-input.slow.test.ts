/** A server that waits on an open connection until somebody answers, as the run sees it (docs/adr/0040, INV-X1, INV-G2). */
import { describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { runCommand } from '../support/cli.ts';
import {
  asking,
  DONE,
  HOLD_SECONDS,
  refusalOfTold,
  tell,
  tellRound,
  useHeldScene,
  wordOf,
} from '../support/scenes/held-input.ts';
import { answerTo, approved, named, question } from '../support/scenes/input.ts';
import { until } from '../support/until.ts';
import { executions, outcomesAtEnd, refusalOf } from '../support/world/run-record.ts';

const scene = useHeldScene();

const END = { text: 'done' };
const steps = (tool: string) => [{ calls: [{ tool, arguments: { n: 1 } }] }, END];
const FACTS = ['dispatched', 'request.opened', 'request.reminded', 'request.closed', 'input.provided', 'outcome'];

async function told(run: RunHandle): Promise<readonly string[]> {
  return (await run.ledger()).map(({ fact }) => fact.kind).filter((kind) => FACTS.includes(kind));
}

describe('a question', () => {
  test('is put before people, and the dispatch that asked is told the answer; the call is sent once', async () => {
    const { world } = scene;
    const run = await world.start(steps('desk/do'));
    const flight = await scene.flight(run);
    expect(flight.input.hold).toEqual({ seconds: HOLD_SECONDS });
    const ack = await tellRound(world, flight);
    // A repeat is the same one.
    expect(await tellRound(world, flight)).toEqual(ack);
    const request = await question(run);
    expect(request).toMatchObject({ deadline: ack.deadline, about: { held: true, round: 1 }, generation: 1 });
    expect(Date.parse(ack.deadline) - Date.parse(request.openedAt)).toBe(HOLD_SECONDS * 1_000);
    expect(await wordOf(world, flight)).toEqual({ kind: 'open' });
    await run.provideInput(answerTo(request, named('Ann')));
    expect(await wordOf(world, flight)).toMatchObject({
      kind: 'answered',
      provided: { generation: 1, about: { held: true }, provision: { responses: named('Ann') } },
    });
    await tellRound(world, flight, 2);
    const { callId, digest, runId } = await question(run, 2);
    await run.provideInput({ kind: 'decline', decisionId: 'no-2', callId, digest, runId, approver: { id: 'ann' } });
    expect(await wordOf(world, flight, 1)).toEqual({ kind: 'closed' });
    expect(await wordOf(world, flight, 2)).toMatchObject({ provided: { provision: { kind: 'decline' } } });
    flight.end(DONE);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    const asked = ['request.opened', 'input.provided'];
    expect(await told(run)).toEqual(['dispatched', ...asked, ...asked, 'outcome']);
    const [execution] = await executions(world, run.runId);
    const scheduled = execution?.events.flatMap(({ activityTaskScheduledEventAttributes: each }) =>
      each?.activityType?.name === 'callTool' ? [Number(each.startToCloseTimeout?.seconds)] : [],
    );
    const { callTimeoutSeconds } = flight.input.limits;
    expect(scheduled).toEqual([callTimeoutSeconds + 90 + HOLD_SECONDS]);
  });

  test('that the run does not wait for is refused, and leaves no trace', async () => {
    const { world } = scene;
    const run = await world.start(steps('desk/do'));
    const flight = await scene.flight(run);
    const refused = async (over: object, id: string) =>
      await refusalOfTold(tell(world, flight, asking(flight, over), id));
    expect(await refused({ attempt: 2 }, 'r1')).toBe('REQUEST_NOT_OPEN');
    expect(await refused({ round: 11 }, 'r2')).toBe('LIMIT_REACHED');
    expect(await refused({ callId: 't7.c0' }, 'r3')).toBe('CALL_UNKNOWN');
    expect(await refused({ requests: { who: { kind: 'sampling' } } }, 'r4')).toBe('MESSAGE_INVALID');
    expect(await refused({ approved: true }, 'r5')).toBe('MESSAGE_INVALID');
    await tellRound(world, flight);
    expect(await refused({ round: 1 }, 'r6')).toBe('REQUEST_NOT_OPEN');
    flight.end(DONE);
    await run.result();
    expect(await told(run)).toEqual(['dispatched', 'request.opened', 'request.closed', 'outcome']);
    const [execution] = await executions(world, run.runId);
    const accepted = execution?.events.filter(
      ({ workflowExecutionUpdateAcceptedEventAttributes: each }) => each !== undefined && each !== null,
    );
    expect(accepted).toHaveLength(1);
  });

  test('that comes while another one is open takes its place, under a deadline of its own', async () => {
    const { world } = scene;
    const run = await world.start(steps('desk/do'), { policy: { deadlineSeconds: 10 } });
    const flight = await scene.flight(run);
    await tellRound(world, flight);
    const before = await question(run);
    await tellRound(world, flight, 3);
    expect(await wordOf(world, flight)).toEqual({ kind: 'closed' });
    expect(await refusalOf(run.provideInput(answerTo(before, named('Ann'))))).toMatchObject({
      code: 'DIGEST_MISMATCH',
    });
    await until(async () => (await wordOf(world, flight, 3)).kind === 'closed', {
      what: 'the end of the one that took its place',
    });
    flight.end(DONE);
    await run.result();
    const asked = ['request.opened', 'request.closed'];
    expect(await told(run)).toEqual(['dispatched', ...asked, ...asked, 'outcome']);
    const [execution] = await executions(world, run.runId);
    // The run's own time is far longer.
    const timers = execution?.events.filter(
      ({ timerStartedEventAttributes: each }) => Number(each?.startToFireTimeout?.seconds ?? 99) <= 10,
    );
    expect(timers).toHaveLength(2);
  });

  test('of a server that is not held is refused: its dispatch has no hold, and no time for one', async () => {
    const { world } = scene;
    const run = await world.start(steps('mute/do'));
    const flight = await scene.flight(run);
    expect(flight.input).not.toHaveProperty('hold');
    expect(await refusalOfTold(tellRound(world, flight))).toBe('REQUEST_NOT_OPEN');
    flight.end(DONE);
    await run.result();
  });

  test('is told to people as any request: reminders come, and its answer needs its own digest', async () => {
    const { world } = scene;
    const run = await world.start(steps('desk/visit'));
    await approved(run);
    const flight = await scene.flight(run);
    await tellRound(world, flight);
    const request = await question(run);
    expect(request.generation).toBe(2);
    await until(async () => (await told(run)).includes('request.reminded'), {
      what: 'a reminder',
    });
    const wrong = answerTo({ ...request, digest: '0'.repeat(64) }, named('Ann'));
    expect(await refusalOf(run.provideInput(wrong))).toMatchObject({ code: 'DIGEST_MISMATCH' });
    const stranger = answerTo(request, named('Ann'), { approver: { id: 'mallory' } });
    expect(await refusalOf(run.provideInput(stranger))).toMatchObject({ code: 'APPROVER_NOT_ENTITLED' });
    await run.provideInput(answerTo(request, named('Ann')));
    flight.end(DONE);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
  });
});

test('INV-G3: two calls wait at once, each for its own answer; ledger and history say the same', async () => {
  const { world } = scene;
  const both = ['desk/do', 'desk/do'].map((tool, n) => ({ tool, arguments: { n } }));
  const run = await world.start([{ calls: both }, END]);
  const [first, second] = [await scene.flight(run, 't1.c0'), await scene.flight(run, 't1.c1')];
  await tellRound(world, first);
  expect(await run.state()).toMatchObject({ status: 'acting', pending: 1 });
  await tellRound(world, second);
  expect(await run.state()).toMatchObject({ status: 'waiting', pending: 2 });
  const requests = (await run.requests()).filter(({ about }) => about?.kind === 'input');
  expect(requests.map(({ callId }) => callId)).toEqual(['t1.c0', 't1.c1']);
  const later = requests[1];
  if (later === undefined) throw new Error('both ask');
  await run.provideInput(answerTo(later, named('Bob')));
  expect(await wordOf(world, first)).toEqual({ kind: 'open' });
  expect(await wordOf(world, second)).toMatchObject({ kind: 'answered' });
  // The first ends without an answer; nobody waits for one any more.
  first.end({ ...DONE, held: [{ round: 1, told: 'cancel' }] });
  second.end({ ...DONE, held: [{ round: 1, told: 'cancel', code: 'APPROVAL_LAPSED' }] });
  expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded' });
  const where = ['--address', world.engine.server.address, '--namespace', world.engine.server.namespace];
  const cli = async (...args: readonly string[]) =>
    await runCommand([...args, run.runId, ...where], { directory: world.engine.directory });
  expect(await cli('verify-ledger')).toMatchObject({ exitCode: 0 });
  const ledger = (await cli('ledger')).out;
  expect(ledger).toContain('input.provided');
  expect(ledger).toMatch(/input\.told +t1\.c0 +the server of attempt 1, to question 1: cancel\n/);
  // What people said is not what the server heard.
  expect(ledger).toMatch(/input\.told +t1\.c1 .*question 1: cancel \(APPROVAL_LAPSED\)/);
  const facts = (await run.ledger()).flatMap(({ fact }) => ('callId' in fact && fact.callId === 't1.c1' ? [fact] : []));
  expect(facts.slice(-3).map(({ kind }) => kind)).toEqual(['input.provided', 'input.told', 'outcome']);
  // An answer may be personal data, and what is asked is the server's text.
  expect(ledger).not.toMatch(/Bob|For whom/);
});

describe('what nobody answers', () => {
  test('INV-X1: is closed at its deadline; the call goes on, and a later answer is refused', async () => {
    const { world } = scene;
    const run = await world.start(steps('desk/do'), { policy: { deadlineSeconds: 10 } });
    const flight = await scene.flight(run);
    await tellRound(world, flight);
    const request = await question(run);
    await until(async () => (await wordOf(world, flight)).kind === 'closed', { what: 'its end' });
    expect(await refusalOf(run.provideInput(answerTo(request, named('Ann'))))).toMatchObject({
      code: 'DECISION_EXPIRED',
    });
    // The server has heard that nobody answers, and may ask again.
    await tellRound(world, flight, 2);
    await run.provideInput(answerTo(await question(run, 2), named('Bob')));
    flight.end(DONE);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
  });

  test('INV-X2: is closed where the worker is lost, and people are asked what became of the call', async () => {
    const { world } = scene;
    const run = await world.start(steps('desk/do'));
    const flight = await scene.flight(run);
    await tellRound(world, flight);
    const request = await question(run);
    flight.lose();
    const lost = await until(
      async () => (await run.requests()).find(({ status, about }) => status === 'open' && about?.kind === 'outcome'),
      { what: 'what became of it' },
    );
    expect(lost.generation).toBe(request.generation + 1);
    expect(await told(run)).toEqual(['dispatched', 'request.opened', 'request.closed', 'request.opened']);
    expect(await refusalOf(run.provideInput(answerTo(request, named('Ann'))))).toMatchObject({
      code: 'DECISION_NOT_PERMITTED',
    });
    expect(await refusalOfTold(tellRound(world, flight, 2))).toBe('REQUEST_NOT_OPEN');
    const { callId, digest, runId } = lost;
    const word = { decisionId: 'again', callId, digest, runId, approver: { id: 'ann' } };
    await run.resolveOutcome({ kind: 'retry', ...word });
    // Another dispatch asks its own questions, from the first.
    const again = await scene.flight(run, 't1.c0', 2);
    await tellRound(world, again);
    await run.provideInput(answerTo(await question(run), named('Ann')));
    expect(await wordOf(world, flight)).toEqual({ kind: 'closed' });
    again.end(DONE);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
  });
});
