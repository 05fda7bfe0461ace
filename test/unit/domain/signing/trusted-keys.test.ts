/** Keys as those who verify hold them: of one tenant, and each once (INV-G4). */
import { expect, test } from '@jest/globals';
import { doubledIn, trustedKeysFor } from '../../../../domain/signing/jws.ts';
import { person, service } from '../../../support/signing/people.ts';

const ann = person('ann', 'ann', ['ops']).entry;
const backend = service('backend', [], {
  speaksForMany: true,
  holder: 'b',
  retired: '2026-01-01T00:00:00.000Z',
  tenants: ['one'],
}).entry;

test('a tenant has its own keys and no others', () => {
  expect(trustedKeysFor([ann, backend], 'default')).toEqual([
    { kid: 'ann', x: ann.x, iss: 'acme', sub: 'ann', groups: ['ops'] },
  ]);
  expect(trustedKeysFor([ann, backend], 'one')).toEqual([
    { kid: 'backend', x: backend.x, iss: 'acme', groups: [], speaksForMany: true, holder: 'b', retired: 1_767_225_600 },
  ]);
  expect(trustedKeysFor([ann, backend], '')).toEqual([]);
});

test('a name or a key that stands there twice is named', () => {
  expect(doubledIn([ann, backend])).toBeUndefined();
  expect(doubledIn([ann, { ...backend, kid: 'ann' }])).toBe('keys[1].kid');
  expect(doubledIn([ann, { ...ann, kid: 'other' }])).toBe('keys[1].x');
});
