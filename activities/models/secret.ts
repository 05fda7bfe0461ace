/** Keeping a provider's key out of what leaves the worker (INV-S1): servers and proxies echo what they are sent. */
import { createScrubber } from '../tools/scrub.ts';

/** Shorter keys are placeholders of servers that check none (`EMPTY`, `ollama`): taking those out would garble answers. */
const SHORTEST_KEY = 8;

export type Scrub = <T>(value: T) => T;

/** Without a key to take out, strings are still made well-formed: canonical JSON has no lone surrogates (RFC 8785 §3.2.2.2). */
export function scrubberOf(apiKey: string | undefined): Scrub {
  const scrubber = createScrubber(apiKey === undefined || apiKey.length < SHORTEST_KEY ? [] : [apiKey]);
  // Sound: only the text of strings changes, never the shape.
  return <T>(value: T): T => scrubber.value(value) as T;
}
