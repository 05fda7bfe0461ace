import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { PATCHES, UNPROVEN, UNREAD } from '../../workflows/versions.ts';
import { found, nameOf, treeOf } from '../support/syntax.ts';

describe('patches of the workflow (INV-D1)', () => {
  it('are those of the registry, and no other', () => {
    expect(Object.keys(PATCHES)).toEqual(['separate-tasks', 'as-documented']);
  });

  it('stand in what operators read before they go back', () => {
    const guide = readFileSync(new URL('../../docs/operations/going-back.md', import.meta.url), 'utf8');
    for (const id of Object.keys(PATCHES)) expect(guide).toContain(`| \`${id}\` |`);
  });

  it('are asked for by ids of the registry only', () => {
    const asked = ['patched($id)', 'deprecatePatch($id)'].flatMap((pattern) => found(pattern));
    const ids = asked.map(({ holes }) => holes.get('$id'));
    expect(ids.length).toBeGreaterThanOrEqual(3);
    // Markers of messages that could not be read are no patches: their names are made when they are needed.
    const stated = ids.filter((id) => !['CallExpression', 'Identifier'].includes(String(treeOf(id)['type'])));
    expect(stated.map(nameOf).filter((id) => !Object.hasOwn(PATCHES, id))).toEqual([]);
  });

  it('are told from the markers of what could not be read or was not proven', () => {
    for (const id of Object.keys(PATCHES))
      expect([UNREAD, UNPROVEN].some((prefix) => id.startsWith(prefix))).toBe(false);
  });
});
