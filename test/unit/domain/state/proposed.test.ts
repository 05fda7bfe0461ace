import { expect, test } from '@jest/globals';
import { decisionOn, requestOf } from '../../../../domain/state/call.ts';
import { proposedCall } from '../../../support/builders/call.ts';

test('nobody was asked about a call that is only proposed', () => {
  const state = { status: 'proposed', call: proposedCall(), attempts: 0 } as const;
  expect(requestOf(state)).toBeUndefined();
  expect(decisionOn(state)).toBeUndefined();
});
