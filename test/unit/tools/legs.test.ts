/** Leg after leg of a call that a server answers with questions: what is taken for a refused state, and what never is (INV-X1). */
import { describe, expect, test } from '@jest/globals';
import { sendLegs } from '../../../activities/tools/legs.ts';
import type { ToolCall, ToolInput } from '../../../activities/tools/port.ts';
import { createScrubber } from '../../../activities/tools/scrub.ts';
import type { RawAnswer } from '../../../activities/tools/transport.ts';
import { aCall } from '../../support/mcp-call.ts';

const NEW: ToolInput = { answers: [], dispatch: '0.1' };
const DONE: RawAnswer = { kind: 'result', result: { content: [] } };
const GOES_ON: RawAnswer = {
  kind: 'result',
  result: { resultType: 'input_required', requestState: 'state-of-the-server' },
};

/** The server goes on by itself once, and then says this of its state. */
async function legsAfter(error: Omit<Extract<RawAnswer, { kind: 'error' }>, 'kind'>): Promise<readonly string[]> {
  const legs: string[] = [];
  const answers: RawAnswer[] = [GOES_ON, { kind: 'error', ...error }, DONE];
  await sendLegs(aCall({ input: NEW }), {
    names: { server: 'shop', tool: 'order', quote: (text) => text },
    scrubberWith: (secrets) => createScrubber(secrets),
    send: async ({ input }: ToolCall) => {
      legs.push(input?.begunAnew === true ? 'anew' : input?.leg === undefined ? 'first' : 'leg');
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
    expect(await refused(message)).toEqual(['first', 'leg', 'anew']);
  });

  test('a message of megabytes is not searched through: what is said far from its beginning is not heard', async () => {
    expect(await refused(`${'invalid '.repeat(100)} requestState`)).toEqual(['first', 'leg']);
  });
});
