/** Judges again whether policy, schema and people's decisions let a tool be called as it is now. */
import type { Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import type { ToolNow } from '../catalog/reader.ts';
import { type ArgumentChecker, verdictOn } from '../policy/judge.ts';
import type { Conditions } from '../policy/condition.ts';
import { checkRetry } from './answers.ts';
import { checkConsent, hasEditedArguments } from './consent.ts';
import { checkDefinition } from './dispatch-check.ts';
import { answerersNow, type Leaving } from './statement.ts';
import type { Refused } from '../kit/activity.ts';

export type Weighed =
  | { readonly refused: Refused; readonly leaving?: undefined }
  | {
      readonly refused: undefined;
      readonly verdict: Exclude<Verdict, { kind: 'deny' }>;
      /** Later checks hold people's answers other than consent against this. */
      readonly leaving: Leaving;
    };

export async function weigh(
  { config, conditions }: { readonly config: Config; readonly conditions: Conditions },
  checker: ArgumentChecker,
  input: DispatchInput,
  now: ToolNow,
  catalog: CatalogSnapshot | undefined,
): Promise<Weighed> {
  const { tool, pinned } = now;
  const { run, runPolicy, callId, earlier } = input;
  const call = { run, runPolicy, now, catalog, callId, arguments: input.arguments, earlier };
  const verdict = await verdictOn(config, conditions, call);
  // A call that policy denies needs no new question.
  if (verdict.kind === 'deny') return { refused: { kind: 'refused', code: verdict.code, message: verdict.message } };
  // Nobody is asked about a call that cannot run. The judge has already checked what the model proposed for the pinned
  // tool.
  const isChecked = tool === pinned && !hasEditedArguments(input);
  const problems = isChecked ? [] : checker.problems(tool.hash, tool.definition.inputSchema, input.arguments);
  if (problems.length > 0) {
    const what = tool === pinned ? 'The edited arguments do not fit' : 'The tool has changed';
    return { refused: { kind: 'refused', code: 'ARGUMENTS_INVALID', message: `${what}: ${problems.join('; ')}.` } };
  }
  const refused =
    checkRetry(input, config, verdict) ??
    checkDefinition(input, now, verdict) ??
    checkConsent(input, verdict, catalog, Date.now());
  if (refused !== undefined) return { refused };
  const leaving = { ...answerersNow(input, config, verdict), definitionHash: tool.hash, at: Date.now() };
  return { refused, verdict, leaving };
}
