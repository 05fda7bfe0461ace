/**
 * Answers of a provider that are lost, workers that are replaced, definitions that change, and tokens: a hosted call is
 * made at most once by one consent (docs/adr/0080, INV-X1, INV-S1).
 */
import { describe, expect, test } from '@jest/globals';
import { sightingsInHistory } from '../support/canary/stores.ts';
import { objects } from '../support/models/dialect.ts';
import { HOSTING_KEY } from '../support/models/hosting-provider.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { pay, useHostedWorld } from '../support/scenes/hosted.ts';
import { outcomesAtEnd } from '../support/world/run-record.ts';
import { decisionOn, openRequests, requestThat } from '../support/world/world.ts';
import { partsOf } from '../support/world/during.ts';

const scene = useHostedWorld();
const { world, bank } = partsOf(scene, 'world', 'bank');

describe('an answer that is lost', () => {
  test('after the call was made: people are asked, and nothing is sent meanwhile', async () => {
    scene.provider.fault('lost', 'lose');
    const run = await scene.started(['open'], [{ calls: [pay('open', 'lost')] }]);
    const request = await lostCall(run);
    expect(request).toMatchObject({ hosted: 'gpt', about: { kind: 'outcome', attempt: 1 } });
    expect(bank.callsFor('lost')).toHaveLength(1);
    expect(scene.askedAs('lost').calls).toHaveLength(1);
    await run.resolveOutcome(resolutionOf(request, 'bob', { kind: 'failed', message: 'nothing there' }));
    await run.result();
    expect(bank.callsFor('lost')).toHaveLength(1);
  });

  test('is sent once more only by the word of a person', async () => {
    scene.provider.fault('again', 'fail');
    const run = await scene.started(['open'], [{ calls: [pay('open', 'again')] }]);
    const request = await lostCall(run);
    expect(bank.callsFor('again')).toHaveLength(0);
    await run.resolveOutcome(resolutionOf(request, 'ann', { kind: 'retry' }));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor('again')).toHaveLength(1);
  });

  test('and one that tells of another call: the outcome is unknown', async () => {
    scene.provider.fault('wrong', 'wrong');
    const run = await scene.started(['open'], [{ calls: [pay('open', 'wrong')] }]);
    const request = await lostCall(run);
    expect(request.about).toMatchObject({ message: expect.stringContaining('another call than was approved') });
    await run.resolveOutcome(resolutionOf(request, 'bob', { kind: 'failed', message: 'nothing there' }));
    await run.result();
    // The worker that has seen it asks this provider for nothing more.
    await world.restartWorkers();
  });

  test('nothing is lost where the provider refuses before it does anything', async () => {
    scene.provider.fault('refused', 'refuse');
    const run = await scene.started(['open'], [{ calls: [pay('open', 'refused')] }]);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor('refused')).toHaveLength(1);
    expect(scene.askedAs('refused').calls).toHaveLength(2);
  });
});

test('workers may be replaced between question and approval', async () => {
  const run = await scene.started(['bank'], [{ calls: [pay('bank', 'restarted')] }]);
  const [request] = await openRequests(run);
  await world.restartWorkers();
  await run.decide(decisionOn(request, 'ann'));
  await run.result();
  expect(bank.callsFor('restarted')).toHaveLength(1);
});

test('one decision sent twice lets the provider call once', async () => {
  const run = await scene.started(['bank'], [{ calls: [pay('bank', 'doubled')] }]);
  const [request] = await openRequests(run);
  const decision = decisionOn(request, 'ann');
  await Promise.all([run.decide(decision), run.decide(decision)]);
  await run.result();
  expect(bank.callsFor('doubled')).toHaveLength(1);
  expect(scene.askedAs('doubled').calls).toHaveLength(1);
});

test('a definition that changed between question and approval is asked about anew', async () => {
  const run = await scene.started(['drifting'], [{ calls: [pay('drifting', 'drift')] }]);
  const [request] = await openRequests(run);
  const at = scene.tools.findIndex(({ name }) => name === 'pay');
  const [known] = scene.tools.slice(at, at + 1);
  if (known === undefined) throw new Error('there is no tool pay');
  try {
    scene.tools[at] = { ...known, description: 'Pays twice.' };
    await run.decide(decisionOn(request, 'ann'));
    const again = await requestThat(
      run,
      ({ generation, status }) => generation === 2 && status === 'open',
      'asked anew',
    );
    expect(again).toMatchObject({ hosted: 'gpt', description: 'Pays twice.' });
    expect(again.definitionHash).not.toBe(request.definitionHash);
    expect(bank.callsFor('drift')).toEqual([]);
    await run.decide(decisionOn(again, 'ann'));
    await run.result();
    expect(bank.callsFor('drift')).toHaveLength(1);
    const [stated] = objects(scene.askedAs('drift').calls[0]?.['input']).filter(
      ({ type }) => type === 'mcp_list_tools',
    );
    expect(stated).toMatchObject({ tools: [{ name: 'pay', description: 'Pays twice.' }] });
  } finally {
    scene.tools[at] = known;
  }
});

test('the token of the server goes to the provider with lists and calls, with no model step, and into no history', async () => {
  const token = 'CANARY-token-for-mine-5b1f0c9d7e';
  const run = await scene.started(['mine'], [{ calls: [pay('mine', 'tokened')] }], { mine: token });
  const [request] = await openRequests(run);
  await run.decide(decisionOn(request, 'ann'));
  await run.result();
  expect(bank.callsFor('tokened').map(({ headers }) => headers.authorization)).toEqual([`Bearer ${token}`]);
  const holders = scene.provider.asked.filter(({ body }) => JSON.stringify(body).includes(token));
  expect(holders.length).toBeGreaterThanOrEqual(2);
  const isStep = (body: object): boolean => JSON.stringify(body).includes('reasoning.encrypted_content');
  expect(scene.askedAs('tokened').steps.filter(isStep).length).toBeGreaterThan(0);
  expect(holders.filter(({ body }) => isStep(body))).toEqual([]);
  expect(await sightingsInHistory(world, run.runId, [token, HOSTING_KEY])).toEqual([]);
});
