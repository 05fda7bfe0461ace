/**
 * Remembers secrets of the tokens that this process obtained lately, so that its log is scrubbed of them too
 * (INV-S1). A message of a server or a library about a call may quote the token.
 *
 * 1. Only this process remembers, and only the newest: an older secret is no longer found.
 * 2. The scrubber of a secret is made with the next line, once for each: most tokens come and go without a line.
 */
import type { TokenBroker } from '../activities/tokens/port.ts';
import { createScrubber, type Scrubber } from '../activities/scrubbing/scrubber.ts';
import { secretsOf } from '../activities/tokens/broker.ts';

/**
 * Secrets, of which a token brings up to three. A line is about a recent call. A hundred new ones cost the next line a third of
 * a second, and then some milliseconds for each kilobyte.
 */
const MOST_KNOWN = 100;

export class RecentSecrets {
  readonly #known = new Map<string, Scrubber | undefined>();

  note(secrets: readonly string[]): void {
    for (const secret of secrets) {
      const own = this.#known.get(secret);
      // A secret that is used again is among the newest.
      this.#known.delete(secret);
      this.#known.set(secret, own);
    }
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= MOST_KNOWN) break;
      this.#known.delete(oldest);
    }
  }

  scrubbed(text: string): string {
    let left = text;
    for (const [secret, own] of this.#known) {
      const scrubber = own ?? createScrubber([secret]);
      this.#known.set(secret, scrubber);
      left = scrubber.text(left);
    }
    return left;
  }
}

/** A process has one log, and so one set of secrets that the log must not contain. */
export const recentSecrets = new RecentSecrets();

/** Wraps the broker so that each token is noted before anybody has it. */
export function noting(broker: TokenBroker, recent: RecentSecrets = recentSecrets): TokenBroker {
  return {
    mint: async (request) => {
      const token = await broker.mint(request);
      recent.note(secretsOf(token));
      return token;
    },
  };
}
