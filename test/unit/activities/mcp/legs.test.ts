/** Leg after leg of a call that a server answers with questions: what is taken for a refused state, and what never is (INV-X1). */
import { describe, expect, test } from '@jest/globals';
import { createScrubber } from '../../../../activities/scrubbing/scrubber.ts';
import type { ToolCall, ToolInput } from '../../../../activities/mcp/port.ts';
import { sendLegs } from '../../../../activities/mcp/mcp-server.ts';
import type { RawAnswer } from '../../../../activities/mcp/session.ts';
import { aCall } from '../../../support/activities/tool-call.ts';

const GOES_ON: ToolInput = {
  answers: [],
  dispatch: '1.2',
  leg: { responses: {}, state: 'state-of-the-server', used: [] },
};
const DONE: RawAnswer = { kind: 'result', result: { content: [] } };

/** A leg that brings the server's state, and what follows where the server says this of it. */
async function legsAfter(error: Omit<Extract<RawAnswer, { kind: 'error' }>, 'kind'>): Promise<readonly string[]> {
  const legs: string[] = [];
  const answers: RawAnswer[] = [{ kind: 'error', ...error }, DONE];
  await sendLegs(aCall({ input: GOES_ON }), {
    names: { server: 'shop', tool: 'order', quote: (text) => text },
    scrubberWith: (secrets) => createScrubber(secrets),
    send: async ({ input }: ToolCall) => {
      legs.push(input?.begunAnew === true ? 'anew' : 'leg');
      const answer = answers.shift();
      if (answer === undefined) throw new Error('one leg too many');
      return { kind: 'answered', answer };
    },
  });
  return legs;
}

const refused = (message: string): Promise<readonly string[]> => legsAfter({ code: -32_602, message });

describe('a state that is refused', () => {
  test.each([
    'Invalid or expired requestState',
    'request state has expired',
    'unknown request_state',
    'MCP error -32602: bad request-state',
  ])('%s: the call begins anew', async (message) => {
    expect(await refused(message)).toEqual(['leg', 'anew']);
  });

  test('a message of megabytes is not searched through: what is said far from its beginning is not heard', async () => {
    expect(await refused(`${'invalid '.repeat(100)} requestState`)).toEqual(['leg']);
  });

  test('in the data of an error, whatever its words are: the call begins anew', async () => {
    const error = { code: -32_602, message: 'No.', reason: 'invalid_request_state' };
    expect(await legsAfter(error)).toEqual(['leg', 'anew']);
  });

  test('of another code: it does not', async () => {
    expect(await legsAfter({ code: -32_603, message: 'Invalid requestState' })).toEqual(['leg']);
  });
});

describe('INV-X1: what may be said after the tool has run begins nothing anew', () => {
  test.each([
    'Output validation error: Invalid structured content for tool order: data/state must be string',
    'Output validation error: data/requestState must be string',
    'Invalid structured content for tool order: unknown property request_state',
    'Invalid value for field state',
    'The order is in an unknown state',
  ])('%s', async (message) => {
    expect(await refused(message)).toEqual(['leg']);
  });

  test('with the data of a refusal, too', async () => {
    const message = 'Tool order has an output schema but no structured content was provided';
    expect(await legsAfter({ code: -32_602, message, reason: 'invalid_request_state' })).toEqual(['leg']);
  });
});
