/** What a token is asked for: the scopes of one tool and of nothing else (INV-S2). */
import { expect, test } from '@jest/globals';
import { askedFor } from '../../../../activities/tokens/asked.ts';
import { READ_RESOURCE } from '../../../../contracts/names.ts';
import { ScopeTemplates } from '../../../../contracts/schemas/credentials.ts';

const request = {
  run: { namespace: 'default', workflowId: 'run-1', specHash: '' },
  server: 'docs',
  serverUrl: 'https://docs.example/mcp',
};
const asked = (scopes: Partial<ScopeTemplates>, over: object) =>
  askedFor({ scopes: ScopeTemplates.parse(scopes) }, { ...request, ...over }).scopes;

test('reading a linked resource has scopes of its own: no other stands in for them', () => {
  const scopes = { discovery: ['list'], default: ['call'], tools: { [READ_RESOURCE]: ['mistaken'] } };
  expect(asked({ ...scopes, resources: ['read'] }, { tool: READ_RESOURCE })).toEqual(['read']);
  expect(asked(scopes, { tool: READ_RESOURCE })).toEqual([]);
  expect(asked({ ...scopes, resources: ['read'] }, { tool: 'search' })).toEqual(['call']);
  expect(asked({ ...scopes, resources: ['read'] }, {})).toEqual(['list']);
});

test('people may consent to more for a read, too, where the operator lists it', () => {
  const scopes = { resources: ['read'], consentable: ['archive'] };
  expect(asked(scopes, { tool: READ_RESOURCE, consented: ['archive'] })).toEqual(['read', 'archive']);
  expect(() => asked(scopes, { tool: READ_RESOURCE, consented: ['admin'] })).toThrow('may not consent');
});
