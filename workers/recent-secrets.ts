/**
 * Secrets of the tokens that this process has obtained lately, of which its log is scrubbed, too (INV-S1): what a server or a library
 * says of a call may quote the token.
 *
 * 1. Memory of this process alone, of the newest: what is older is not found any more.
 * 2. What it takes to find one is made with the next line, once for each: most tokens come and go without any.
 */
import type { TokenBroker } from '../activities/tokens/port.ts';
import { createScrubber, type Scrubber } from '../activities/tools/scrub.ts';
import { secretsOf } from '../activities/tools/server-access.ts';

/** A line is about a call that was just made; a hundred of a kilobyte cost it some milliseconds at the most. */
const MOST_KNOWN = 100;

export class RecentSecrets {
  readonly #known = new Map<string, Scrubber | undefined>();

  note(secrets: readonly string[]): void {
    for (const secret of secrets) {
      const own = this.#known.get(secret);
      // Used again, it is among the newest.
      this.#known.delete(secret);
      this.#known.set(secret, own);
    }
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= MOST_KNOWN) break;
      this.#known.delete(oldest);
    }
  }

  /** The text without them. */
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

/** The log is one for a process, and so is what it must not say. */
export const recentSecrets = new RecentSecrets();

/** The broker; each token is noted before anybody has it. */
export function noting(broker: TokenBroker, recent: RecentSecrets = recentSecrets): TokenBroker {
  return {
    mint: async (request) => {
      const token = await broker.mint(request);
      recent.note(secretsOf(token));
      return token;
    },
  };
}
