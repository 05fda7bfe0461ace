/** What a call of the client is about, as its errors name it. */
import type { CatalogIdentity } from '../contracts/catalog-activities.ts';
import type { ErrorCode, ErrorFacts } from '../contracts/errors.ts';
import { catalogId } from '../domain/catalog.ts';

/** A run by its id, a catalog, or (empty) nothing in particular. */
export type Subject = string | CatalogIdentity;

export interface Naming {
  /** Fits after a preposition: `run life`. */
  readonly name: string;
  /** Begins a sentence. */
  readonly title: string;
  readonly missing: ErrorCode;
  /** Its workflow can take no task. */
  readonly stuck: ErrorCode;
  /** What to say where it is not there. */
  readonly notThere: string;
  readonly facts: ErrorFacts;
}

export function namingOf(subject: Subject): Naming {
  if (typeof subject === 'string') {
    return {
      name: `run ${subject}`,
      title: `Run ${subject}`,
      missing: 'RUN_NOT_FOUND',
      stuck: 'RUN_STUCK',
      notThere: `There is no open run ${subject} in this namespace.`,
      facts: subject === '' ? {} : { runId: subject },
    };
  }
  const { tenant, server } = subject;
  return {
    name: `the catalog of ${server}`,
    title: `The catalog of ${server}`,
    missing: 'CATALOG_NOT_FOUND',
    stuck: 'CATALOG_UNAVAILABLE',
    notThere: `Tenant ${tenant} has no catalog of ${server} in this namespace. Connect the server: countersign catalog connect ${server} --tenant ${tenant} --as ID`,
    facts: { tenant, server },
  };
}

/** Also the lane in which updates wait for each other. */
export function workflowIdOf(subject: Subject): string {
  return typeof subject === 'string' ? subject : catalogId(subject);
}
