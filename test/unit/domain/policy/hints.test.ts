/** What a rule may conclude from a tool's hints (F25, INV-G4). */
import { expect, test } from '@jest/globals';
import { hintsHold } from '../../../../domain/policy/judge.ts';

test.each([
  ['that are stated', { readOnlyHint: true }, { readOnlyHint: true }, true, true],
  ['that are stated otherwise', { readOnlyHint: true }, { readOnlyHint: false }, true, false],
  ['that are not stated are what MCP says: not read-only', { readOnlyHint: true }, {}, true, false],
  ['destructive', { destructiveHint: true }, undefined, true, true],
  ['to the open world', { openWorldHint: true }, {}, true, true],
  ['not idempotent', { idempotentHint: true }, {}, true, false],
  ['of an odd type', { readOnlyHint: true }, { readOnlyHint: 'true' }, true, 'unknown'],
  ['that nobody trusts', { readOnlyHint: true }, { readOnlyHint: true }, false, 'unknown'],
  ['that nobody asks for', {}, { readOnlyHint: 1 }, false, true],
  ['one of which is otherwise', { readOnlyHint: true, idempotentHint: true }, { readOnlyHint: true }, true, false],
  ['named as every object names it', { readOnlyHint: true }, { constructor: true }, true, false],
] as const)('F25: hints %s', (_, wanted, annotations, isTrusted, held) => {
  expect(hintsHold(wanted, annotations, isTrusted)).toBe(held);
});

test('no hints wanted hold', () => {
  expect(hintsHold(undefined, undefined, false)).toBe(true);
});
