/** A run whose grant names no vault entry hears how to name one, and the vault is not asked. */
import { expect, test } from '@jest/globals';
import type { TokenRequest } from '../../../../activities/tokens/port.ts';
import { vaultedTokenStrategy } from '../../../../activities/tokens/vaulted.ts';
import type { Vault } from '../../../../activities/vault/port.ts';
import { defined } from '../../../../contracts/defined.ts';
import { NOW, runOf, SERVER_URL } from '../../../support/signing/grants.ts';

test.each<[string, TokenRequest['grant'], { code: string; message: RegExp }]>([
  ['no grant', undefined, { code: 'GRANT_MISSING', message: /Start the run with a grant for notes that names .+ref/ }],
  [
    'a grant for another server',
    { server: 'files', ref: 'ann-files' },
    { code: 'GRANT_INVALID', message: /countersign authorize --ref.+grants: \[\{server: notes, ref: …\}\]/ },
  ],
])('%s', async (_name, grant, { code, message }) => {
  // Sound: it is not asked for anything.
  const strategy = vaultedTokenStrategy({} as Vault, () => NOW);
  const request = { run: runOf(), server: 'notes', serverUrl: SERVER_URL, ...defined({ grant }) };
  await expect(strategy.mint(request)).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
});
