/**
 * Adds to every log line of an activity, beside Temporal's own fields, the server and the call that the line
 * is about.
 */
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import { isFields } from '../domain/shapes/fields.ts';

export function nameSubject(): ActivityInterceptorsFactory {
  return () => {
    let subject = {};
    return {
      inbound: {
        execute: async (input, next) => {
          subject = subjectOf(input.args[0]);
          return await next(input);
        },
      },
      outbound: { getLogAttributes: (attributes, next) => next({ ...attributes, ...subject }) },
    };
  };
}

export function subjectOf(input: unknown): Readonly<Record<string, string>> {
  if (!isFields(input)) return {};
  const server = nameOf(input['server']) ?? (isFields(input['target']) ? nameOf(input['target']['server']) : undefined);
  const callId = nameOf(input['callId']);
  return { ...(server === undefined ? {} : { server }), ...(callId === undefined ? {} : { callId }) };
}

function nameOf(value: unknown): string | undefined {
  const name = isFields(value) ? value['name'] : value;
  return typeof name === 'string' ? name : undefined;
}
