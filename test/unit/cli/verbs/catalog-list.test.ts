/** The list of a tenant's catalogs by command: one that does not answer hides no other. */
import { describe, expect, test } from '@jest/globals';
import { plain } from '../../../../cli/session/terminal.ts';
import { listCatalogs } from '../../../../cli/verbs/catalog.ts';
import type { Countersign } from '../../../../client/index.ts';
import { CountersignError, type ErrorCode } from '../../../../contracts/errors.ts';
import { catalogSnapshot } from '../../../support/builders/catalog.ts';
import { codeOf } from '../../../support/refusal.ts';

/** @param failing server → the code of its catalog's answer */
function listing(servers: readonly string[], failing: Readonly<Record<string, ErrorCode>> = {}) {
  let underWay = 0;
  let most = 0;
  const countersign = {
    catalogs: async () => await Promise.resolve(servers.map((server) => ({ tenant: 'acme', server }))),
    catalog: (server: string) => ({
      server,
      snapshot: async () => {
        underWay += 1;
        most = Math.max(most, underWay);
        await new Promise((resolve) => void setImmediate(resolve));
        underWay -= 1;
        const code = failing[server];
        if (code !== undefined) throw new CountersignError(code, `${server} does not answer.`);
        return catalogSnapshot([], { server });
      },
    }),
  };
  // Sound: nothing else of it is used.
  return { answer: listCatalogs(countersign as unknown as Countersign, 'acme'), most: () => most };
}

describe('the catalogs of a tenant', () => {
  test('are listed where one of them does not answer, and that one is named', async () => {
    const failing = { shop: 'ENGINE_UNAVAILABLE', gone: 'CATALOG_NOT_FOUND' } as const;
    const answer = await listing(['bank', 'gone', 'shop', 'yard'], failing).answer;
    expect(answer.json).toMatchObject({ catalogs: [{ server: 'bank' }, { server: 'yard' }], unread: ['shop'] });
    const text = answer.text(plain);
    expect(text).toContain('bank');
    expect(text).toContain('shop cannot be read now; see: countersign catalog show shop --tenant acme');
    expect(text).not.toContain('gone');
  });

  test('are no list where none answers: that says why', async () => {
    const { answer } = listing(['bank', 'shop'], { bank: 'ENGINE_UNAVAILABLE', shop: 'RUN_STUCK' });
    expect(await codeOf(answer)).toBe('ENGINE_UNAVAILABLE');
  });

  test('are asked a few at a time', async () => {
    const { answer, most } = listing(Array.from({ length: 100 }, (_, index) => `server-${index}`));
    expect((await answer).json).toMatchObject({ unread: [] });
    expect(most()).toBeLessThan(20);
  });
});
