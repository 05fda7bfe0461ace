/**
 * Answers to what a server asks for in the middle of a call: which fit, and which answer what is asked again.
 *
 * Pure. Does not own forms (`form.ts`), nor who may answer.
 * 1. An answer is to one question: the same key, and the same request to the letter. What a server asks with another text, other
 *    fields or another URL is another question, and a person is asked (INV-G4).
 * 2. In one pass over a server's questions each answer is used once: a server that repeats a question has not taken the answer.
 */
import type { InputAnswer, InputRequest, InputRequests, InputResponse } from '../contracts/schemas/input.ts';
import { isFields } from './field-checks.ts';
import { byteLength, canonicalJson } from './canonical.ts';
import { type Problem, problemInForm } from './form.ts';

/** Times one call may wait for input; the default of the MCP SDK. */
export const MOST_ROUNDS = 10;

/** Of all answers of one message, as canonical JSON: they are carried as long as the call is open. */
const MOST_ANSWER_BYTES = 32_768;

/** What is wrong with answers to all of `requests`; undefined where they may be taken. */
export function problemInResponses(requests: InputRequests, given: unknown): Problem | undefined {
  if (!isFields(given)) return { path: '', reason: 'must be an object with an answer for each request' };
  for (const key of Object.keys(given)) {
    if (!Object.hasOwn(requests, key)) return { path: key, reason: 'is not among the requests' };
  }
  for (const [key, request] of Object.entries(requests)) {
    if (!Object.hasOwn(given, key)) return { path: key, reason: 'has no answer' };
    const problem = problemInResponse(request, given[key]);
    if (problem !== undefined) return { ...problem, path: problem.path === '' ? key : `${key}.${problem.path}` };
  }
  if (byteLength(canonicalJson(given)) > MOST_ANSWER_BYTES)
    return { path: '', reason: `must have at most ${MOST_ANSWER_BYTES} bytes` };
  return undefined;
}

function problemInResponse(request: InputRequest, response: unknown): Problem | undefined {
  if (!isFields(response)) return { path: '', reason: 'must be an object with an action' };
  const { action, content, ...others } = response;
  const [other] = Object.keys(others);
  if (other !== undefined) return { path: other, reason: 'is no field of an answer' };
  if (action !== 'accept' && action !== 'decline' && action !== 'cancel')
    return { path: 'action', reason: 'must be accept or decline or cancel' };
  if (action === 'accept' && request.kind === 'form') {
    const problem = problemInForm(request, content);
    return problem && { ...problem, path: problem.path === '' ? 'content' : `content.${problem.path}` };
  }
  if (content !== undefined) return { path: 'content', reason: 'goes only with an accepted form' };
  return undefined;
}

/** The answers to these requests, those that were used in this pass left out, and the keys that have none. */
export function answersTo(
  requests: Readonly<Record<string, Pick<InputRequest, 'hash'>>>,
  answers: readonly InputAnswer[],
  used: readonly string[] = [],
): { readonly responses: Readonly<Record<string, InputResponse>>; readonly missing: readonly string[] } {
  const found: [string, InputResponse][] = [];
  const missing: string[] = [];
  for (const [key, { hash }] of Object.entries(requests)) {
    const answer = used.includes(hash) ? undefined : answers.find((each) => each.hash === hash);
    if (answer === undefined) missing.push(key);
    else found.push([key, answer.response]);
  }
  return { responses: Object.fromEntries(found), missing };
}

/** With these answers, of which each replaces an earlier one to the same question. */
export function withAnswers(
  answers: readonly InputAnswer[],
  requests: InputRequests,
  responses: Readonly<Record<string, InputResponse>>,
): readonly InputAnswer[] {
  const fresh = Object.entries(requests).flatMap(([key, { hash }]): InputAnswer[] => {
    const response = responses[key];
    return response === undefined ? [] : [{ hash, response }];
  });
  const hashes = new Set(fresh.map(({ hash }) => hash));
  return [...answers.filter(({ hash }) => !hashes.has(hash)), ...fresh];
}
