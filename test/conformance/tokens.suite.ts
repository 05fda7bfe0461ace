/**
 * What every way of obtaining a token must do, whatever it obtains it from (`activities/tokens/port.ts`).
 */
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { ErrorCode } from '../../contracts/errors.ts';
import { TokenEvidence } from '../../contracts/schemas/call.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../../activities/tokens/port.ts';
import { createScrubber } from '../../activities/scrubbing/scrubber.ts';
import { refusalOf } from '../support/refusal.ts';

export interface TokenSetting {
  readonly broker: TokenBroker;
  /** As the evidence names it. */
  readonly strategy: string;
  /** A request that succeeds, of the run with this number. */
  request(run: number): Promise<TokenRequest>;
  /** What no error, evidence or other output may hold, however it was obtained. */
  readonly canaries: readonly string[];
  /** What went out to authorization servers for the last token, and is no name: assertions, client secrets. */
  readonly shown?: () => readonly string[];
  /** What the port says when its token was refused by the server with 401. */
  readonly afterRefusal: 'another token' | ErrorCode;
  close(): Promise<void>;
}

const FINAL: ReadonlySet<ErrorCode> = new Set([
  'GRANT_MISSING',
  'GRANT_INVALID',
  'GRANT_EXPIRED',
  'GRANT_FORBIDDEN',
  'TOKEN_REFUSED',
]);

/** oidc-provider says on the console that it runs on Node 20 and without a store. */
export function silenceProvider(): void {
  beforeAll(() => {
    for (const level of ['info', 'warn'] as const) jest.spyOn(console, level).mockImplementation(() => undefined);
  });
  afterAll(() => void jest.restoreAllMocks());
}

export function describeTokens(name: string, open: () => Promise<TokenSetting>): void {
  describe(`tokens by ${name}`, () => {
    let setting: TokenSetting;
    beforeAll(async () => {
      setting = await open();
    });
    afterAll(async () => setting.close());

    test('S1.3: a token is the credential alone, without a scheme', async () => {
      const { accessToken } = await mint(1);
      expect(accessToken).toMatch(/^[A-Za-z0-9\-._~+/]+=*$/);
    });

    test('INV-S1: the token is among the secrets to scrub', async () => {
      const { accessToken, secrets } = await mint(1);
      expect(secrets).toContain(accessToken);
    });

    test('INV-S1: all that was shown to get it is among the secrets to scrub, and is not the token', async () => {
      const { accessToken, secrets } = await mint(1);
      const shown = setting.shown?.() ?? [];
      expect(secrets).toEqual(expect.arrayContaining([...shown]));
      expect(shown).not.toContain(accessToken);
    });

    test('INV-S2: the evidence names the strategy, and an expiry where the token has one', async () => {
      const { evidence } = await mint(1);
      expect(evidence.strategy).toBe(setting.strategy);
      if (setting.strategy !== 'given') expect(evidence).toMatchObject({ expiresAt: expect.any(String) });
    });

    test('INV-S1: the evidence fits its schema and holds no secret', async () => {
      const { evidence, secrets } = await mint(1);
      expect(TokenEvidence.parse(evidence)).toEqual(evidence);
      const text = JSON.stringify(evidence);
      expect(createScrubber([...secrets, ...setting.canaries]).text(text)).toBe(text);
    });

    test('S1.7: listing tools and calling one are both given a token', async () => {
      const { tool: _tool, ...listing } = await setting.request(1);
      expect((await setting.broker.mint(listing)).accessToken).toBeDefined();
      expect((await setting.broker.mint({ ...listing, tool: 'write' })).accessToken).toBeDefined();
    });

    test('S1.1, H-1: two runs at the same time have two tokens', async () => {
      const [one, two] = await Promise.all([mint(1), mint(2)]);
      expect(one.accessToken).not.toBe(two.accessToken);
      expect(one.secrets).not.toContain(two.accessToken);
      expect(two.secrets).not.toContain(one.accessToken);
    });

    test('H-2: a token that the server refused is not handed out again', async () => {
      const request = await setting.request(1);
      const { accessToken } = await setting.broker.mint(request);
      const again = setting.broker.mint({ ...request, refused: accessToken ?? '' });
      if (setting.afterRefusal === 'another token') {
        expect((await again).accessToken).not.toBe(accessToken);
      } else {
        await expect(again).rejects.toMatchObject({ code: setting.afterRefusal });
      }
    });

    test('F15: a name with another address than the configured one gets no token', async () => {
      const request = await setting.request(1);
      await expect(
        setting.broker.mint({ ...request, serverUrl: 'http://127.0.0.1:9/elsewhere' }),
      ).rejects.toMatchObject({
        code: expect.stringMatching(/^(TOKEN_REFUSED|GRANT_INVALID)$/),
      });
    });

    test('S1.6: a refusal is one of the codes of the port, says whether it is final, and shows no secret', async () => {
      const request = await setting.request(1);
      const { accessToken, secrets } = await setting.broker.mint(request);
      const error = await refusalOf(setting.broker.mint({ ...request, serverUrl: 'http://127.0.0.1:9/elsewhere' }));
      expect(FINAL.has(error.code)).toBe(!error.traits.retryable);
      expect(error.cause).toBeUndefined();
      const text = `${error.message} ${JSON.stringify(error.facts)} ${String(error.stack)}`;
      for (const canary of [accessToken ?? '', ...secrets, ...setting.canaries]) expect(text).not.toContain(canary);
    });

    async function mint(run: number): Promise<MintedToken> {
      return setting.broker.mint(await setting.request(run));
    }
  });
}
