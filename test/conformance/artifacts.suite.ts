/** What every `ArtifactStore` does. */
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

    test.each(['', '../../secret', 'A'.repeat(64), `${'a'.repeat(63)}/`])(
      'a reference whose hash is "%s" is ARTIFACT_MISSING',
      async (sha256) => {
        const store = await create();
        await expect(store.get({ sha256, bytes: 1, contentType: 'text/plain' })).rejects.toMatchObject({
          code: 'ARTIFACT_MISSING',
        });
      },
    );

    test('a reference of another length is ARTIFACT_CORRUPT', async () => {
      const store = await create();
      const ref = await store.put(bytesOf('four'), 'text/plain');
      await expect(store.get({ ...ref, bytes: 5 })).rejects.toMatchObject({ code: 'ARTIFACT_CORRUPT' });
    });
  });
}
