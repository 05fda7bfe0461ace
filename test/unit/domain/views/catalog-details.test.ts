/** What Temporal UI shows of a catalog. */
import { describe, expect, test } from '@jest/globals';
import { refreshFailed } from '../../../../domain/catalog/discovery.ts';
import { opened } from '../../../../domain/catalog/pending.ts';
import { startCatalog } from '../../../../domain/catalog/state.ts';
import { catalogDetails } from '../../../../domain/views/temporal-ui.ts';
import {
  ann,
  at,
  catalogEntry,
  catalogOf,
  connection,
  definition,
  planOf,
  taken,
  toolSetting,
} from '../../../support/builders/catalog.ts';

describe('details of a catalog', () => {
  test('say what an operator has to look at, and nothing of what is in order', () => {
    expect(catalogDetails(startCatalog({ tenant: 'acme', server: 'files' }))).toBe(
      '**new**, version 0\n- 0 tools available',
    );
    const entries = [
      catalogEntry({ name: 'list' }),
      catalogEntry({ name: 'gone', status: 'missing' }),
      catalogEntry({ name: 'off', setting: toolSetting({ enabled: false }) }),
      catalogEntry({ name: 'drifted', definition: { hash: definition('second'), refresh: 2 } }),
    ];
    const enable = [{ tool: 'off', enabled: true }];
    const catalog = catalogOf(entries);
    const waiting = taken(opened(catalog, { by: ann, changes: enable }, planOf(catalog, enable), 0)).catalog;
    const failed = refreshFailed(waiting, 3, { code: 'DISCOVERY_FAILED', message: 'away' }, at(3)).catalog;
    expect(catalogDetails(failed).split('\n')).toEqual([
      '**connected** to ` https://files.example/mcp `, version 1',
      '- 3 tools available',
      '- Changed since an operator looked (1): ` drifted `',
      '- Missing (1): ` gone `',
      '- Disabled (1): ` off `',
      '- Waiting for a second administrator (1): ` change-1 `',
      '- The last refresh failed: DISCOVERY&#95;FAILED&#58; away',
    ]);
  });

  test('count one tool as one', () => {
    expect(catalogDetails(catalogOf([catalogEntry({ name: 'list' })]))).toContain('- 1 tool available');
  });

  test('name twenty tools at most', () => {
    const entries = Array.from({ length: 21 }, (_, index) => catalogEntry({ name: `t${index}`, status: 'missing' }));
    const [, , missing] = catalogDetails(catalogOf(entries)).split('\n');
    expect(missing).toContain('Missing (21)');
    expect(missing).toContain('` t19 ` …');
    expect(missing).not.toContain('t20');
  });

  test('foreign text is inert: no markup of a server, and nothing invisible', () => {
    const hostile = '`[all](https://evil.example) is\u202e well`';
    const missing = catalogOf([catalogEntry({ name: hostile, status: 'missing' })], {
      connection: connection({ url: 'https://files.example/`*x*`' }),
    });
    const shown = catalogDetails(refreshFailed(missing, 2, { code: 'X', message: hostile }, at(2)).catalog);
    expect(shown).not.toContain('\u202e');
    const [url, , name, failure] = shown.split('\n');
    expect(url).toContain('`` https://files.example/`*x*` ``');
    expect(name).toContain('`` `[all](https://evil.example) is\\u{202e} well` ``');
    expect(failure).not.toMatch(/[`[\]()]/);
  });
});
