/** Serves a tool server whose listing a test changes, and can hold back. */
import { type RawServer, startRawServer } from './mcp-raw-server.ts';
import { until } from './until.ts';

export interface ListingServer extends Pick<RawServer, 'url' | 'close'> {
  /**
   * Lists these tools from now on, each with a description of this mark.
   * @param isHeld true if only `release` answers listings
   */
  lists(names: readonly string[], mark: string, isHeld?: boolean): void;
  /** Waits until a listing is held. */
  held(): Promise<void>;
  /** Answers what is held, even if nobody waits any more, and holds nothing from now on. */
  release(): void;
}

export async function startListingServer(): Promise<ListingServer> {
  const waiting: (() => void)[] = [];
  let pages: readonly (readonly object[])[] = [];
  const server = await startRawServer({ era: 'modern' });
  return {
    url: server.url,
    close: server.close,
    lists: (names, mark, isHeld = false) => {
      pages = [names.map((name) => ({ name, description: `${name} ${mark}`, inputSchema: { type: 'object' } }))];
      server.become({
        era: 'modern',
        pages,
        ...(isHeld ? { onList: (answer: () => void) => void waiting.push(answer) } : {}),
      });
    },
    held: async () => {
      await until(() => (waiting.length > 0 ? true : undefined), { what: 'a held listing' });
    },
    release: () => {
      server.become({ era: 'modern', pages });
      for (const answer of waiting.splice(0)) answer();
    },
  };
}
