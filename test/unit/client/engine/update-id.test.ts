/** Which id an update has: of the very message, so that Temporal answers no other one in its place (INV-G2, INV-D3). */
import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { updateIdOf } from '../../../../client/engine/update.ts';
import { blocksOf } from '../../../support/guide.ts';

const json = fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true });

describe('the id of an update', () => {
  test('is the same exactly where update, id and message are, in whatever order the members come', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), json, json, (update, id, one, other) => {
        const again = Object.fromEntries(Object.entries(one).toReversed());
        expect(updateIdOf(update, again, id)).toBe(updateIdOf(update, one, id));
        const isSame = canonicalize(one) === canonicalize(other);
        expect(updateIdOf(update, other, id) === updateIdOf(update, one, id)).toBe(isSame);
        expect(updateIdOf(`${update}x`, one, id)).not.toBe(updateIdOf(update, one, id));
        expect(updateIdOf(update, one, `${id}x`)).not.toBe(updateIdOf(update, one, id));
      }),
    );
  });

  test('has each member of a message in it: one that is changed, added or taken away makes another', () => {
    fc.assert(
      fc.property(json, fc.string(), fc.jsonValue(), (message, name, value) => {
        const { [name]: before, ...without } = message;
        const changed = { ...without, [name]: value };
        const isSame = before !== undefined && canonicalize(before) === canonicalize(value);
        expect(updateIdOf('decide', changed, 'd') === updateIdOf('decide', message, 'd')).toBe(isSame);
        expect(updateIdOf('decide', without, 'd') === updateIdOf('decide', changed, 'd')).toBe(false);
      }),
    );
  });

  test('is what the guide says, by tools that are not ours', async () => {
    const blocks = await blocksOf('docs/guide/starting-from-any-language.md', 'json');
    expect(blocks).toHaveLength(1);
    // Sound: the guide is ours.
    const { update, canonical, updateId } = JSON.parse(blocks[0]?.text ?? '') as Record<string, string>;
    if (update === undefined || canonical === undefined) throw new Error('the guide has a vector');
    const message = JSON.parse(canonical) as { readonly decisionId: string };
    expect(canonicalize(message)).toBe(canonical);
    const hash = createHash('sha256').update(canonical).digest('hex');
    expect(updateId).toBe(`${update}/${message.decisionId}/${hash.slice(0, 16)}`);
    expect(updateIdOf(update, message, message.decisionId)).toBe(updateId);
  });
});
