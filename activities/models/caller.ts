/**
 * The model of single calls asks nobody: it proposes the call that the run's starter states, and answers with its
 * outcome as JSON (`CallAnswer`). It costs no tokens.
 *
 * 1. It proposes one call, once. What may not run, or must be asked, is the gate's to say.
 * 2. Arguments that nest too deeply are told as those of any model: a run could not carry them.
 */
import { CountersignError } from '../../contracts/errors.ts';
import { defined } from '../../contracts/defined.ts';
import type { CallAnswer } from '../../contracts/schemas/run-state.ts';
import { wantedCall } from '../../domain/run/single-call.ts';
import { MAX_NESTING, nestsTooDeeply } from '../kit/json.ts';
import type { Model, ModelPart } from './port.ts';

const USAGE = { inputTokens: 0, outputTokens: 0 };

export const CALLER: Model = {
  step: async ({ messages, tools, signal }) => {
    signal.throwIfAborted();
    const result = messages.find((message) => message.role === 'tool')?.results[0];
    if (result !== undefined) {
      const { callId, outcome, edited } = result;
      const answer: CallAnswer = { callId, outcome, ...defined({ edited }) };
      return { parts: [{ type: 'text', text: JSON.stringify(answer) }], usage: USAGE, finish: 'stop' };
    }
    const wanted = wantedCall(messages);
    if (wanted === undefined) {
      const message =
        'The input of a run with model "caller" is one call as JSON: {"tool": "server/tool", "arguments": {…}}. Start it as a single call (docs/guide/single-calls.md), or name another model.';
      throw new CountersignError('SPEC_INVALID', message, { path: 'input' });
    }
    const call: ModelPart = {
      type: 'call',
      providerCallId: 'call',
      name: tools.find(({ qualifiedName }) => qualifiedName === wanted.tool)?.name ?? wanted.tool,
      ...(nestsTooDeeply(wanted.arguments)
        ? { arguments: {}, malformed: `the arguments nest deeper than ${MAX_NESTING} levels` }
        : { arguments: wanted.arguments }),
    };
    return { parts: [call], usage: USAGE, finish: 'calls' };
  },
};
