/**
 * Implements `countersign call`: one tool, called through the gate, without a model. It prints what became of the call,
 * and ends with status 0 only where the call succeeded or somebody answered in the tool's place.
 */
import { randomUUID } from 'node:crypto';
import type { CallAnswer, CallSpecInput, SingleCall } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { visible } from '../../domain/text/escape.ts';
import { resultOf } from '../../domain/views/model-text.ts';
import { readInput } from '../session/files.ts';
import * as option from '../session/options.ts';
import { lastWord } from '../../domain/text/shell-word.ts';
import type { Paint } from '../session/terminal.ts';
import { verb } from '../session/verb.ts';
import { outputText } from '../views/run.ts';
import { pauseTeller, within } from './run.ts';
import { TOKENS, withTokens } from './start.ts';

/** After this time a person at the terminal is told that the call waits. */
const SILENT_MS = 2_000;

export const CALL = verb({
  name: 'call',
  summary: 'have one tool called through the gate, without a model',
  description:
    'Have one tool called through the gate: the same policy, requests, tokens and ledger as in a run, without a model. The same id with the same call is the same call',
  args: { tool: option.one('server/tool, the tool as its server spells it') },
  options: {
    as: option.actor('who calls'),
    group: option.several('<name>', 'a group of theirs'),
    tenant: option.text('<id>', 'tenant (default: `default`)'),
    arguments: option.text('<file>', 'arguments as JSON or YAML; - for standard input (default: none)'),
    id: option.text('<run>', 'names the call, so that asking twice is harmless (default: a random one)'),
    ...TOKENS,
  },
  examples: [
    'call ledger/book_invoice --as ann --id book-4711 --arguments invoice.json',
    'call tickets/close --as ann --group support --arguments - --deadline 60 < ticket.json',
  ],
  note: 'It waits until the call has ended; with --deadline no longer than that. The same command with the same --id waits on.',
  run: async ({ args, options, terminal }) => {
    const { id: runId = `call-${randomUUID()}`, deadline } = options;
    const { server, tool } = toolOf(args.tool);
    const kind = { what: 'arguments', code: 'ARGUMENTS_INVALID' } as const;
    const given = options.arguments === undefined ? {} : await readInput(options.arguments, kind, terminal);
    const call: CallSpecInput = {
      server,
      tool,
      arguments: given,
      initiator: { id: options.as, groups: [...(options.group ?? [])], ...defined({ tenant: options.tenant }) },
    };
    const spec = { servers: [{ name: server }] };
    const answer = await withTokens(terminal, options, spec, async ({ countersign, settings }, authorizations) => {
      const single = await countersign.call({ runId, call, authorizations, taskQueue: settings.taskQueue });
      return await answerOf(single, deadline, {
        onWait: () => {
          if (options.json !== true)
            terminal.err(`${visible(runId)} goes on. See: countersign requests ${lastWord(runId)}\n`);
        },
        onPause: pauseTeller(terminal, options),
      });
    });
    return {
      json: { runId, ...answer },
      text: (paint) => answerText(runId, answer, paint),
      fault: faultOf(runId, answer),
    };
  },
});

function toolOf(given: string): { readonly server: string; readonly tool: string } {
  const at = given.indexOf('/');
  if (at < 1 || at === given.length - 1)
    throw option.usage('The tool is named server/tool, the tool as its server spells it. Nothing was sent.');
  return { server: given.slice(0, at), tool: given.slice(at + 1) };
}

/** @param onPause called where nobody works on it: somebody who waits would wait for nothing */
export async function answerOf(
  single: SingleCall,
  deadlineSeconds: number | undefined,
  { onWait, onPause }: { readonly onWait: () => void; readonly onPause: (trouble: CountersignError) => void },
): Promise<CallAnswer> {
  const silent = setTimeout(onWait, SILENT_MS);
  try {
    return await single.answer({ onPause, ...within(deadlineSeconds) });
  } finally {
    clearTimeout(silent);
  }
}

function answerText(runId: string, answer: CallAnswer, paint: Paint): string {
  const { kind } = answer.outcome;
  const { text } = resultOf(answer);
  return `${paint('bold', visible(runId))}  ${paint(isSuccess(answer) ? 'green' : 'red', kind)}\n\n${outputText(text)}`;
}

function isSuccess({ outcome: { kind } }: CallAnswer): boolean {
  return kind === 'succeeded' || kind === 'answered';
}

function faultOf(runId: string, answer: CallAnswer): CountersignError | undefined {
  if (isSuccess(answer)) return undefined;
  const { kind } = answer.outcome;
  const message = `The call ended as ${kind}. What led to it: countersign ledger ${lastWord(runId)}`;
  return new CountersignError('CALL_UNSUCCESSFUL', message, { runId, kind });
}
