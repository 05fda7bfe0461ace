/** What a run tries again, as people read it. */
import type { Retry } from '../../client/index.ts';
import { spaced, visible } from '../../domain/escape.ts';
import { shortInstant } from './duration.ts';

export function retryText({ step, code, message, attempt, since, next }: Retry): string {
  const when = since === undefined ? '' : ` since ${shortInstant(since)}`;
  const then = next === undefined ? 'being tried now' : `tried again at ${shortInstant(next)}`;
  return `${visible(step)}: ${visible(code)}, attempt ${attempt}${when}, ${then}: ${spaced(message)}`;
}
