/**
 * The scripted model plays a list of steps: for tests, the demo, and trying a policy without a provider.
 *
 * 1. The same conversation gives the same answer, provider ids and usage included.
 * 2. A tool that is not offered is proposed all the same, under its raw name: refusing it is the gate's work (INV-G1).
 */
import type { CallResult, Message } from '../../contracts/schemas/transcript.ts';
import type { Script, ScriptedStep } from '../../contracts/schemas/script.ts';
import type { JsonValue } from '../../contracts/schemas/json.ts';
import { modelText } from '../../domain/views/model-text.ts';
import type { Model, ModelAnswer, ModelPart, ModelTool } from './port.ts';

type Action = Pick<ScriptedStep, 'text' | 'calls'>;
type Condition = ScriptedStep['branches'][number]['when'];

const AFTER_THE_LAST_STEP: Action = { text: 'The script has ended.', calls: [] };

export function createScriptedModel(script: Script): Model {
  return {
    step: async ({ turn, messages, tools, signal }) => {
      signal.throwIfAborted();
      return answer(actionOf(stepOf(script, turn), messages), turn, messages, tools);
    },
  };
}

function stepOf(script: Script, turn: number): ScriptedStep | undefined {
  let last = 0;
  return script.steps.find((step) => turn <= (last += step.repeat));
}

function actionOf(step: ScriptedStep | undefined, messages: readonly Message[]): Action {
  if (step === undefined) return AFTER_THE_LAST_STEP;
  return step.branches.find(({ when }) => holds(when, messages))?.then ?? step;
}

/** True if one result of the last turn that had calls meets every stated condition. */
function holds(when: Condition, messages: readonly Message[]): boolean {
  const { call, outcome, textIncludes } = when;
  if (call === undefined && outcome === undefined && textIncludes === undefined) return true;
  const results = messages.findLast((message) => message.role === 'tool')?.results ?? [];
  return results.some((result, index) => (call === undefined || call === index) && fits(result, when));
}

function fits(result: CallResult, { outcome, textIncludes }: Condition): boolean {
  if (outcome !== undefined && result.outcome.kind !== outcome) return false;
  return textIncludes === undefined || modelText(result.outcome).text.includes(textIncludes);
}

function answer(action: Action, turn: number, messages: readonly Message[], tools: readonly ModelTool[]): ModelAnswer {
  const text: ModelPart[] = action.text === undefined ? [] : [{ type: 'text', text: withTurn(action.text, turn) }];
  const calls = action.calls.map(({ tool, arguments: given }, index): ModelPart => {
    const qualifiedName = withTurn(tool, turn);
    return {
      type: 'call',
      providerCallId: `scripted-${turn}-${index}`,
      name: tools.find((offered) => offered.qualifiedName === qualifiedName)?.name ?? qualifiedName,
      arguments: Object.fromEntries(Object.entries(given).map(([key, value]) => [key, filledIn(value, turn)])),
    };
  });
  const parts = [...text, ...calls];
  return {
    parts,
    usage: { inputTokens: messages.length, outputTokens: parts.length },
    finish: calls.length > 0 ? 'calls' : 'stop',
  };
}

function filledIn(value: JsonValue, turn: number): JsonValue {
  if (typeof value === 'string') return withTurn(value, turn);
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map((item: JsonValue) => filledIn(item, turn));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, filledIn(item, turn)]));
}

function withTurn(text: string, turn: number): string {
  return text.replaceAll('{{turn}}', String(turn));
}
