/** Nothing in a run draws from its random sequence, and tracing has one of its own: a query, which replay does not repeat, moves neither (ADR 0051). */
import { expect, test } from '@jest/globals';
import { sharedBundle } from '../support/shared-bundle.ts';
import { sourceFiles } from './source-tree.ts';

const DRAWS = /\buuid4\b|Math\.random|randomUUID|getRandomValues|getRandomStream/;

test('workflows and domain draw no random value', () => {
  const found = sourceFiles()
    .filter(({ folder, text }) => (folder === 'workflows' || folder === 'domain') && DRAWS.test(text))
    .map(({ path }) => path);
  expect(found).toEqual([]);
});

test('spans in a run have ids of a random stream of their own', async () => {
  const { code } = await sharedBundle();
  expect(code).toContain('idGenerator: new id_generator_1.DeterministicIdGenerator()');
  expect(code).toMatch(/getRandomStream\)?\(OTEL_ID_RANDOM_STREAM\)/);
});
