/** Reads the forms of the pages into the messages that runs take. What does not fit is told by field. */
import { CountersignError } from '../../contracts/errors.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { FormField, FormValue } from '../../contracts/schemas/input.ts';
import { isObject } from './kit/faithful.ts';
import { writtenJson, writtenNumber } from './kit/json.ts';
import type { Sent } from './kit/port.ts';
import { fieldPath } from './question.ts';

const UPDATES = { outcome: 'resolveOutcome', input: 'provideInput', authorization: 'authorize' } as const;

/** @throws CountersignError `DECISION_INVALID` */
export function answerOf(form: URLSearchParams, request: ApprovalRequest): Omit<Sent, 'runId'> {
  const { callId, about } = request;
  const kind = needed(form, 'kind');
  const base = {
    kind,
    callId,
    digest: needed(form, 'digest'),
    runId: needed(form, 'runId'),
    decisionId: needed(form, 'decisionId'),
    ...given(form, ['comment', 'reason', 'result', 'message', 'answer']),
  };
  const update = about === undefined ? 'decide' : UPDATES[about.kind];
  if (about?.kind === 'input' && kind === 'provide')
    return { update, message: { ...base, responses: responsesOf(form, about.requests) } };
  const until = form.get('until');
  return {
    update,
    message: {
      ...base,
      ...(kind === 'extend' && until !== null ? { until: instantOf(until) } : {}),
      ...(form.has('arguments') ? { arguments: objectOf(needed(form, 'arguments'), 'arguments') } : {}),
      ...rememberOf(form, request),
    },
  };
}

function needed(form: URLSearchParams, name: string): string {
  const value = form.get(name);
  if (value === null || value === '') throw invalid(name, 'is missing; load the page again');
  return value;
}

function given(form: URLSearchParams, names: readonly string[]): Record<string, string> {
  const texts = names.map((name) => [name, form.get(name)?.replaceAll('\r\n', '\n') ?? ''] as const);
  return Object.fromEntries(texts.filter(([, text]) => text !== ''));
}

/** @param called what the page calls the field */
function invalid(path: string, reason: string, called = path): CountersignError {
  return new CountersignError('DECISION_INVALID', `${called} ${reason}. Nothing was sent.`, { path });
}

/** A field of type `datetime-local` has no zone: the page says that it is UTC. */
function instantOf(text: string): string {
  const at = new Date(`${text}Z`);
  if (Number.isNaN(at.getTime())) throw invalid('until', 'must be a date and a time');
  return at.toISOString();
}

export function objectOf(text: string, path: string): JsonObject {
  const read = writtenJson(text);
  if ('reason' in read) throw invalid(path, read.reason);
  if (!isObject(read.value)) throw invalid(path, 'must be a JSON object');
  return read.value;
}

function rememberOf(form: URLSearchParams, { arguments: args }: ApprovalRequest): { remember?: object } {
  const scope = form.get('remember');
  if (scope === null || scope === '') return {};
  const chosen = form.getAll('names');
  const names = Object.keys(args).filter((_, index) => chosen.includes(String(index)));
  return { remember: scope === 'arguments' ? { scope, names } : { scope } };
}

type Questions = Extract<NonNullable<ApprovalRequest['about']>, { kind: 'input' }>['requests'];

function responsesOf(form: URLSearchParams, questions: Questions): Record<string, object> {
  return Object.fromEntries(
    Object.entries(questions).map(([key, question], at) => {
      if (question.kind === 'url') return [key, { action: 'accept' }];
      const content = Object.entries(question.fields).flatMap(([name, field], index) => {
        const value = fieldValue(form, `field.${at}.${index}`, field, name, fieldPath(key, name));
        return value === undefined || mayStayOut(value, field, question.required.includes(name))
          ? []
          : [[name, value] as const];
      });
      return [key, { action: 'accept', content: Object.fromEntries(content) }];
    }),
  );
}

/** True of an empty list that need not be there: the schema would refuse it for being too short. */
function mayStayOut(value: FormValue, field: FormField, isRequired: boolean): boolean {
  return (
    !isRequired && field.type === 'choices' && (field.minItems ?? 0) > 0 && Array.isArray(value) && value.length === 0
  );
}

function fieldValue(
  form: URLSearchParams,
  id: string,
  field: FormField,
  name: string,
  path: string,
): FormValue | undefined {
  if (field.type === 'choices') return form.getAll(id);
  const text = form.get(id);
  if (text === null || text === '') return undefined;
  if (field.type === 'boolean') return text === 'true';
  // Browsers send line breaks of a text as CRLF (WHATWG HTML, "Multipart form data").
  if (field.type === 'text') return text.replaceAll('\r\n', '\n');
  if (field.type !== 'number' && field.type !== 'integer') return text;
  const number = writtenNumber(text);
  if ('reason' in number) throw invalid(path, number.reason, field.title ?? name);
  return number.value;
}
