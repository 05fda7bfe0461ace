import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { PATCHES } from '../../workflows/versions.ts';

const folder = new URL('../../workflows/', import.meta.url);
const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && name !== 'versions.ts')
  .map((name) => readFileSync(new URL(name, folder), 'utf8'));

describe('patches of the workflow (INV-D1)', () => {
  it('are those of the registry, and no other', () => {
    expect(Object.keys(PATCHES)).toEqual(['pauses', 'lists', 'lost-answers', 'tasks', 'links', 'held']);
  });

  it('stand in what operators read before they go back', () => {
    const guide = readFileSync(new URL('../../docs/operations/deploying.md', import.meta.url), 'utf8');
    const [, searched = ''] = /TemporalChangeVersion IN \((.*?)\)/.exec(guide) ?? [];
    const ids = [...searched.matchAll(/'(.*?)'/g)].map(([, id]) => id);
    expect(new Set(ids)).toEqual(new Set(Object.keys(PATCHES)));
    for (const id of Object.keys(PATCHES)) expect(guide).toContain(`| \`${id}\` |`);
  });

  it('are asked for by ids of the registry only', () => {
    const used = sources.flatMap((source) =>
      [...source.matchAll(/\b(?:patched|deprecatePatch)\(\s*(['"`])(.*?)\1/g)].map((match) => match[2]),
    );
    expect(sources.length).toBeGreaterThan(5);
    expect(used.filter((id) => id === undefined || !Object.hasOwn(PATCHES, id))).toEqual([]);
  });
});
