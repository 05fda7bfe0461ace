/**
 * Registers the messages of a catalog.
 *
 * 1. A validator only reads, by the configuration's last answer; the handler asks anew (`changes.ts`). A right that was
 *    taken away therefore counts at once, and a new right counts within a minute.
 */
import { defineQuery, setHandler } from '@temporalio/workflow';
import { CATALOG_UPDATES, QUERIES } from '../../contracts/names.ts';
import { failureOf } from '../../contracts/failure.ts';
import type { CatalogAck } from '../../contracts/schemas/catalog.ts';
import type { CatalogPurpose } from '../../contracts/schemas/trust.ts';
import type { SignedChange } from '../../contracts/wire/catalog.ts';
import { overLimit } from '../../domain/catalog/carry.ts';
import { checkVersion, planned, policiesSet, rightsOf } from '../../domain/catalog/settings.ts';
import {
  parseCatalogDecision,
  parseConnect,
  type Parsed,
  parseDisconnect,
  parsePolicies,
  parseRefresh,
} from '../../domain/shapes/inputs.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import type { Refusal } from '../../domain/text/refusal.ts';
import { askedAbout, onNudge, onUpdate, parsed, refuseWith, serveEntity } from '../entity/entity.ts';
import { checkFromNowOn } from '../interceptors/zone.ts';
import { assertOtherVoice, changePolicies, connect, decideChange, disconnect, forbidden, refresh } from './changes.ts';
import type { LiveCatalog } from './live-catalog.ts';
import {
  assertSignedChange,
  assertTrustReadable,
  type Message,
  openedChange,
  readTrust,
  signedChange,
} from './trust.ts';

interface Kind<T extends Message> {
  readonly parse: (input: unknown) => Parsed<T>;
  readonly check?: (live: LiveCatalog, message: T) => Refusal | undefined;
  readonly assert?: (live: LiveCatalog, message: T, signature: string | undefined) => void;
  readonly act: (live: LiveCatalog, message: T, signed: SignedChange | undefined) => Promise<CatalogAck>;
  /** The purpose for which the message is signed, in trust mode `signed`. */
  readonly purpose: CatalogPurpose;
  readonly description: string;
}

export function registerCatalogHandlers(live: LiveCatalog): void {
  serveEntity(live);
  setHandler(defineQuery(QUERIES.snapshot), (known?: unknown) => live.snapshot(askedAbout(known)));
  register(live, CATALOG_UPDATES.connect, {
    parse: parseConnect,
    purpose: 'catalog.connect',
    // The configuration's additions decide whether a version is needed.
    act: connect,
    description: 'Connect the server, or change how it is reached',
  });
  register(live, CATALOG_UPDATES.refresh, {
    parse: parseRefresh,
    purpose: 'catalog.refresh',
    act: refresh,
    description: 'List the tools of the server anew',
  });
  register(live, CATALOG_UPDATES.setToolPolicies, {
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
  register(live, CATALOG_UPDATES.disconnect, {
    parse: parseDisconnect,
    purpose: 'catalog.disconnect',
    check: ({ catalog }, { expectedVersion }) => checkVersion(catalog, expectedVersion),
    act: disconnect,
    description: 'No run may use the server any more; policy is kept',
  });
  register(live, CATALOG_UPDATES.decide, {
    parse: parseCatalogDecision,
    purpose: 'catalog.decide',
    assert: assertOtherVoice,
    act: decideChange,
    description: 'Agree to a loosening of somebody else, or reject it',
  });
  // It has no content, so it is not signed.
  onNudge(live, CATALOG_UPDATES.refreshTrust, {
    description: 'Read the trusted keys anew',
    check: () => assertTrustReadable(live),
    act: async () => await readTrust(live),
  });
}

function register<T extends Message>(live: LiveCatalog, name: string, kind: Kind<T>): void {
  onUpdate(live, name, {
    description: kind.description,
    read: (input) => {
      const { message, signature } = openedChange(live, input);
      return { message: parsed(kind.parse(message), 'CATALOG_INVALID'), signature };
    },
    check: ({ message, signature }) => {
      assertSignedChange(live, kind.purpose, message, signature);
      if (repeated(live, message) !== undefined) return;
      // The message is not in history yet, so it is taken when sent again.
      if (live.isClosed || live.isOverfull)
        throw failureOf(
          'CATALOG_UNAVAILABLE',
          'The catalog stores its ledger and takes nothing for a moment; nothing was changed. Try again.',
        );
      const rules = live.freshRules;
      if (rules !== undefined && rightsOf(rules, message.by).size === 0) throw forbidden(live, message.by, 'connect');
      kind.assert?.(live, message, signature);
      refuseWith(kind.check?.(live, message));
    },
    act: async ({ message, signature }) => {
      const signed = signedChange(kind.purpose, message, signature);
      if (signed !== undefined) checkFromNowOn();
      return await live.inTurn(async () => repeated(live, message) ?? (await kind.act(live, message, signed)));
    },
  });
}

/** The first answer to a message that was sent before. @throws ApplicationFailure if another message had the same id */
function repeated({ catalog }: LiveCatalog, message: Message): CatalogAck | undefined {
  const before = catalog.answered.find(({ ack }) => ack.requestId === message.requestId);
  if (before === undefined) return undefined;
  if (before.digest === hashOf(message)) return before.ack;
  throw failureOf('CATALOG_INVALID', 'requestId was used for another message; choose a new one. Nothing was changed.', {
    path: 'requestId',
  });
}
