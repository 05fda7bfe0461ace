/** What every `ArtifactStore` does, and what those do that outlive their process. */
import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import type { ArtifactStore } from '../../activities/artifacts/port.ts';

export interface ArtifactHarness {
  readonly name: string;
  create(): ArtifactStore | Promise<ArtifactStore>;
}

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

export function artifactSuite({ name, create }: ArtifactHarness): void {
  describe(`the artifact port: ${name}`, () => {
    test('what was put is got back, byte for byte', async () => {
      const store = await create();
      const bytes = Uint8Array.from({ length: 70_000 }, (_, n) => n % 256);
      const ref = await store.put(bytes, 'application/octet-stream');
      expect(ref).toEqual({
        sha256: createHash('sha256').update(bytes).digest('hex'),
        bytes: 70_000,
        contentType: 'application/octet-stream',
      });
      expect(Buffer.from(await store.get(ref)).equals(bytes)).toBe(true);
    });

    test('no bytes at all are bytes too', async () => {
      const store = await create();
      expect((await store.get(await store.put(new Uint8Array(), 'text/plain'))).length).toBe(0);
    });

    test("putting again is harmless and gives the same address; the content type is the reference's own", async () => {
      const store = await create();
      const first = await store.put(bytesOf('{}'), 'application/json');
      const second = await store.put(bytesOf('{}'), 'text/plain');
      expect(second).toEqual({ ...first, contentType: 'text/plain' });
      expect(Buffer.from(await store.get(first)).toString()).toBe('{}');
    });

    test('many puts of the same bytes at once all succeed', async () => {
      const store = await create();
      const refs = await Promise.all(Array.from({ length: 20 }, () => store.put(bytesOf('same'), 'text/plain')));
      expect(new Set(refs.map(({ sha256 }) => sha256)).size).toBe(1);
      expect(Buffer.from(await store.get(refs[0] ?? { sha256: '', bytes: 0, contentType: '' })).toString()).toBe(
        'same',
      );
    });

    test('a buffer that is changed after put changes nothing', async () => {
      const store = await create();
      const bytes = bytesOf('before');
      const ref = await store.put(bytes, 'text/plain');
      bytes.fill(0);
      expect(Buffer.from(await store.get(ref)).toString()).toBe('before');
    });

    test('what was never put is ARTIFACT_MISSING', async () => {
      const store = await create();
      await expect(store.get({ sha256: 'a'.repeat(64), bytes: 1, contentType: 'text/plain' })).rejects.toMatchObject({
        code: 'ARTIFACT_MISSING',
      });
    });

    test.each([
      '',
      '../../secret',
      '..%2f..%2fsecret',
      `../../${'a'.repeat(58)}`,
      `${'a'.repeat(64)}\n`,
      'A'.repeat(64),
      `${'a'.repeat(63)}/`,
    ])('a reference whose hash is "%s" is ARTIFACT_MISSING', async (sha256) => {
      const store = await create();
      await expect(store.get({ sha256, bytes: 1, contentType: 'text/plain' })).rejects.toMatchObject({
        code: 'ARTIFACT_MISSING',
      });
    });

    test.each(['text/html; charset=utf-8', 'no type', 'text/plain\r\nx-injected: 1', '', 'ä/ö', 'x'.repeat(200)])(
      'content of type "%s" is kept, and the reference says the type as it was given',
      async (contentType) => {
        const store = await create();
        const ref = await store.put(bytesOf(`of ${contentType}`), contentType);
        expect(ref.contentType).toBe(contentType);
        expect(Buffer.from(await store.get(ref)).toString()).toBe(`of ${contentType}`);
      },
    );

    test('32 MiB, as much as one answer of a server may bring, are kept whole', async () => {
      const store = await create();
      const bytes = Buffer.alloc(33_554_432, 'Countersign ');
      const read = await store.get(await store.put(bytes, 'application/octet-stream'));
      // Not `toEqual`: it walks byte by byte.
      expect(Buffer.compare(read, bytes)).toBe(0);
    });

    test('a reference of another length is ARTIFACT_CORRUPT', async () => {
      const store = await create();
      const ref = await store.put(bytesOf('four'), 'text/plain');
      await expect(store.get({ ...ref, bytes: 5 })).rejects.toMatchObject({ code: 'ARTIFACT_CORRUPT' });
    });
  });
}

/** One place where artifacts are kept, new and empty. */
export interface KeptPlace {
  readonly store: ArtifactStore;
  /** As another worker has it. */
  another(): ArtifactStore;
  /** Behind the store's back. */
  overwrite(sha256: string, bytes: Uint8Array): Promise<void>;
  /** Until `bringBack`. */
  takeAway(): Promise<void>;
  bringBack(): Promise<void>;
}

export function keptArtifactSuite(name: string, open: () => Promise<KeptPlace>): void {
  describe(`artifacts that are kept: ${name}`, () => {
    test('another worker reads what one wrote', async () => {
      const { store, another } = await open();
      expect(Buffer.from(await another().get(await store.put(bytesOf('kept'), 'text/plain'))).toString()).toBe('kept');
    });

    test('workers that put the same content at once all succeed, and all of them read it', async () => {
      const { another } = await open();
      const bytes = Buffer.alloc(300_000, 'the same ');
      const stores = Array.from({ length: 8 }, another);
      const refs = await Promise.all(stores.map((each) => each.put(bytes, 'text/plain')));
      const read = await Promise.all(stores.map((each, index) => each.get(refs[index] ?? NOTHING)));
      expect(read.map((each) => Buffer.compare(each, bytes))).toEqual(stores.map(() => 0));
    });

    test.each([
      ['changed', 'chaNged content'],
      ['cut short, as by an upload that broke off', 'changed'],
      ['made longer', 'changed content and more'],
      ['emptied', ''],
    ])('what was %s is ARTIFACT_CORRUPT, never returned, and putting the bytes again mends it', async (_, text) => {
      const { store, overwrite } = await open();
      const ref = await store.put(bytesOf('changed content'), 'text/plain');
      await overwrite(ref.sha256, bytesOf(text));
      await expect(store.get(ref)).rejects.toMatchObject({ code: 'ARTIFACT_CORRUPT' });
      expect(await store.put(bytesOf('changed content'), 'text/plain')).toEqual(ref);
      expect(Buffer.from(await store.get(ref)).toString()).toBe('changed content');
    });

    test('INV-D3: where the place is away nothing is said to be stored, the failure may pass, and all is there when it is back', async () => {
      const { store, takeAway, bringBack } = await open();
      const ref = await store.put(bytesOf('before'), 'text/plain');
      await takeAway();
      try {
        for (const refused of [() => store.put(bytesOf('meanwhile'), 'text/plain'), () => store.get(ref)]) {
          await expect(refused()).rejects.toMatchObject({
            code: 'ARTIFACT_MISSING',
            traits: expect.objectContaining({ retryable: true }),
          });
        }
      } finally {
        await bringBack();
      }
      expect(Buffer.from(await store.get(ref)).toString()).toBe('before');
      await store.put(bytesOf('meanwhile'), 'text/plain');
    });
  });
}

const NOTHING = { sha256: '', bytes: 0, contentType: '' };
