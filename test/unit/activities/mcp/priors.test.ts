/** What is remembered of how servers speak: bounded, dated, apart for each server and way of asking. */
import { expect, test } from '@jest/globals';
import type { PriorDiscovery } from '@modelcontextprotocol/client';
import { createPriors } from '../../../../activities/mcp/session.ts';
import { aConnection } from '../../../support/activities/tool-call.ts';

const modern: PriorDiscovery = {
  kind: 'modern',
  discover: { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } },
};
const heard = (learned: PriorDiscovery, moved = false) => ({ learned, moved });
const at = (n: number) => aConnection({ url: `http://h${n}.test/mcp` });

test('what was learned is recalled for the same server alone', () => {
  const priors = createPriors();
  priors.learn(at(1), heard(modern));
  expect(priors.recall(at(1))).toEqual(modern);
  expect(priors.recall(at(2))).toBeUndefined();
  expect(priors.recall({ ...at(1), accessToken: 'token-1234' })).toBeUndefined();
  expect(priors.recall({ ...at(1), headers: { 'x-tenant': 'a' } })).toBeUndefined();
  expect(priors.recall({ ...at(1), protocol: '2026-07-28' })).toBeUndefined();
});

test('the name of the server and the value of the token make no difference', () => {
  const priors = createPriors();
  priors.learn({ ...at(1), accessToken: 'token-1234' }, heard(modern));
  expect(priors.recall({ ...at(1), name: 'other', accessToken: 'token-5678' })).toEqual(modern);
});

test('after ten minutes it is asked anew: an upgraded server would else be spoken to in the old way for ever', () => {
  let now = 1;
  const priors = createPriors(() => now);
  priors.learn(at(1), heard({ kind: 'legacy' }));
  now = 600_001;
  expect(priors.recall(at(1))).toEqual({ kind: 'legacy' });
  now = 600_002;
  expect(priors.recall(at(1))).toBeUndefined();
});

test('of a server that sends requests elsewhere it is kept that a session begins with a request, and no address', () => {
  const priors = createPriors();
  priors.learn(at(1), heard(modern, true));
  expect(priors.recall(at(1))).toBeUndefined();
  priors.learn(at(1), heard({ kind: 'legacy' }, true));
  expect(priors.recall(at(1))).toEqual({ kind: 'legacy' });
});

test('what turned out wrong is forgotten', () => {
  const priors = createPriors();
  priors.learn(at(1), heard(modern));
  priors.forget(at(1));
  expect(priors.recall(at(1))).toBeUndefined();
});

test('beyond 500 servers the one that was used longest ago goes', () => {
  const priors = createPriors();
  for (let n = 0; n < 500; n += 1) priors.learn(at(n), heard(modern));
  priors.recall(at(0));
  priors.learn(at(500), heard(modern));
  expect(priors.recall(at(0))).toEqual(modern);
  expect(priors.recall(at(1))).toBeUndefined();
});

test('capabilities without end are not kept', () => {
  const priors = createPriors();
  const experimental = { huge: { text: 'x'.repeat(20_000) } };
  const discover = { supportedVersions: ['2026-07-28'], capabilities: { experimental } };
  priors.learn(at(1), heard({ kind: 'modern', discover }));
  expect(priors.recall(at(1))).toBeUndefined();
});
