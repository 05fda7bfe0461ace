/**
 * Remembers secrets of the tokens that this process obtained lately, so that its log is scrubbed of them too (INV-S1).
 * A message of a server or a library about a call may quote the token. Only this process remembers, and only the
 * newest: an older secret is no longer found.
 */
import { LRUCache } from 'lru-cache';
import type { TokenBroker } from '../activities/tokens/port.ts';
import { createScrubber, type Scrubber } from '../activities/scrubbing/scrubber.ts';
import { secretsOf } from '../activities/tokens/broker.ts';

/**
 * Secrets, of which a token brings up to three. A line is about a recent call. A hundred new ones cost the next line a
 * third of a second, and then some milliseconds for each kilobyte.
 */
const MOST_KNOWN = 100;

export class RecentSecrets {
  readonly #known = new LRUCache<string, Scrubber>({ max: MOST_KNOWN });

  note(secrets: readonly string[]): void {
    for (const secret of secrets) this.#known.set(secret, this.#known.get(secret) ?? createScrubber([secret]));
  }

  scrubbed(text: string): string {
    return [...this.#known.values()].reduce((left, scrubber) => scrubber.text(left), text);
  }
}

/** A process has one log, and so one set of secrets that the log must not contain. */
export const recentSecrets = new RecentSecrets();

export function noting(broker: TokenBroker, recent: RecentSecrets = recentSecrets): TokenBroker {
  return {
    mint: async (request) => {
      const token = await broker.mint(request);
      recent.note(secretsOf(token));
      return token;
    },
  };
}
