/** These helpers read values of unknown shape field by field. */
import { isUndecodable } from '../../contracts/payload-converter.ts';

export type Fields = Readonly<Record<string, unknown>>;

/** Byte arrays do not count: as fields they would be millions. */
export function isFields(value: unknown): value is Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return !ArrayBuffer.isView(value) && !isUndecodable(value);
}

export function isFiniteNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}
