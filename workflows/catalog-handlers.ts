/**
 * Messages of a catalog: what is refused before it enters history, and in which order the others are handled.
 *
 * 1. A validator reads only. It goes by what the configuration said last; the handler asks it anew (`catalog-change.ts`), so
 *    that a right that was taken away counts at once, and one that was given counts within a minute.
 */
import { setHandler } from '@temporalio/workflow';
import { failureOf } from '../contracts/failure.ts';
import type { SignedChange } from '../contracts/catalog-activities.ts';
import type { CatalogAck } from '../contracts/schemas/catalog.ts';
import type { Approver } from '../contracts/schemas/decision.ts';
import type { CatalogPurpose } from '../contracts/schemas/trust.ts';
import { overLimit } from '../domain/catalog-carry.ts';
import { checkVersion, type CatalogRefusal, planned, policiesSet } from '../domain/catalog-policy.ts';
import { rightsOf } from '../domain/catalog-rights.ts';
import {
  parseCatalogDecision,
  parseConnect,
  parseDisconnect,
  parsePolicies,
  parseRefresh,
} from '../domain/messages.ts';
import { hashOf } from '../domain/canonical.ts';
import type { Parsed } from '../domain/messages.ts';
import {
  assertOtherVoice,
  changePolicies,
  connect,
  decideChange,
  disconnect,
  forbidden,
  refresh,
} from './catalog-change.ts';
import {
  catalogTrustUpdate,
  connectUpdate,
  decideChangeUpdate,
  disconnectUpdate,
  policiesUpdate,
  refreshUpdate,
  snapshotQuery,
} from './catalog-messages.ts';
import {
  assertOpenable,
  assertSignedChange,
  assertTrustReadable,
  openedChange,
  readTrust,
  signedChange,
} from './catalog-trust.ts';
import type { LiveCatalog } from './live-catalog.ts';
import { ledgerQuery, nudgeSignal, transcriptQuery } from './messages.ts';
import { ledgerPage, transcriptPage } from './queries.ts';
import { askedAbout } from './refusals.ts';
import { assertReadable } from './unread.ts';
import { checkFromNowOn } from './zone.ts';

interface Message {
  readonly requestId: string;
  readonly by: Approver;
}

interface Kind<T extends Message> {
  readonly parse: (input: unknown) => Parsed<T>;
  readonly check?: (live: LiveCatalog, message: T) => CatalogRefusal | undefined;
  /** Of what was signed. */
  readonly assert?: (live: LiveCatalog, message: T, signature: string | undefined) => void;
  readonly act: (live: LiveCatalog, message: T, signed: SignedChange | undefined) => Promise<CatalogAck>;
  /** What it is signed for, in trust mode `signed`. */
  readonly purpose: CatalogPurpose;
  readonly description: string;
}

export function registerCatalogHandlers(live: LiveCatalog): void {
  setHandler(snapshotQuery, (known) => live.snapshot(askedAbout(known)));
  setHandler(ledgerQuery, (from, to) => ledgerPage(live, from, to));
  // Storing a segment asks for both; a catalog has no conversation.
  setHandler(transcriptQuery, (from, to) => transcriptPage(live, from, to));

  setHandler(nudgeSignal, () => void (live.nudged = true), { description: 'Continue as new at the next safe point' });

  register(live, connectUpdate, {
    parse: parseConnect,
    purpose: 'catalog.connect',
    // Whether a version is needed depends on what the configuration adds.
    act: connect,
    description: 'Connect the server, or change how it is reached',
  });
  register(live, refreshUpdate, {
    parse: parseRefresh,
    purpose: 'catalog.refresh',
    act: refresh,
    description: 'List the tools of the server anew',
  });
  register(live, policiesUpdate, {
    parse: parsePolicies,
    purpose: 'catalog.setToolPolicies',
    check: ({ catalog }, { by, expectedVersion, changes }) => {
      const plan = planned(catalog, changes);
      if (plan.kind === 'refuse') return checkVersion(catalog, expectedVersion) ?? plan;
      return checkVersion(catalog, expectedVersion) ?? overLimit(policiesSet(catalog, plan, by));
    },
    act: changePolicies,
    description: 'Say of tools whether agents may use them, and who must countersign',
  });
  register(live, disconnectUpdate, {
    parse: parseDisconnect,
    purpose: 'catalog.disconnect',
    check: ({ catalog }, { expectedVersion }) => checkVersion(catalog, expectedVersion),
    act: disconnect,
    description: 'No run may use the server any more; policy is kept',
  });
  register(live, decideChangeUpdate, {
    parse: parseCatalogDecision,
    purpose: 'catalog.decide',
    assert: assertOtherVoice,
    act: decideChange,
    description: 'Agree to a loosening of somebody else, or reject it',
  });
  setHandler(
    catalogTrustUpdate,
    async () => {
      live.updates += 1;
      await readTrust(live);
    },
    { description: 'Read the trusted keys anew', validator: () => assertTrustReadable(live) },
  );
}

function register<T extends Message>(live: LiveCatalog, update: typeof connectUpdate, kind: Kind<T>): void {
  setHandler(
    update,
    async (input) => {
      assertReadable(input);
      live.updates += 1;
      const opened = openedChange(live, input);
      const message = parsed(kind.parse(opened.message));
      const signed = signedChange(kind.purpose, message, opened.signature);
      if (signed !== undefined) checkFromNowOn();
      return await live.inTurn(async () => repeated(live, message) ?? (await kind.act(live, message, signed)));
    },
    {
      description: kind.description,
      validator: (input) => {
        assertOpenable(live, input);
        const opened = openedChange(live, input);
        const message = parsed(kind.parse(opened.message));
        assertSignedChange(live, kind.purpose, message, opened.signature);
        if (repeated(live, message) !== undefined) return;
        // Nothing of it is in history yet: sent again, it is taken.
        if (live.isClosed || live.isOverfull)
          throw failureOf(
            'CATALOG_UNAVAILABLE',
            'The catalog stores its ledger and takes nothing for a moment; nothing was changed. Try again.',
          );
        const rules = live.freshRules;
        if (rules !== undefined && rightsOf(rules, message.by).size === 0) throw forbidden(live, message.by, 'connect');
        kind.assert?.(live, message, opened.signature);
        const refusal = kind.check?.(live, message);
        if (refusal !== undefined) throw failureOf(refusal.code, refusal.message, refusal.facts);
      },
    },
  );
}

/** The first answer, where this was sent before. @throws ApplicationFailure where another message had its id */
function repeated({ catalog }: LiveCatalog, message: Message): CatalogAck | undefined {
  const before = catalog.answered.find(({ ack }) => ack.requestId === message.requestId);
  if (before === undefined) return undefined;
  if (before.digest === hashOf(message)) return before.ack;
  throw failureOf('CATALOG_INVALID', 'requestId was used for another message; choose a new one. Nothing was changed.', {
    path: 'requestId',
  });
}

function parsed<T>(shape: Parsed<T>): T {
  if (shape.kind === 'ok') return shape.value;
  throw failureOf(
    'CATALOG_INVALID',
    `${shape.path === '' ? 'The message' : shape.path} ${shape.reason}; nothing was changed.`,
    { path: shape.path },
  );
}
