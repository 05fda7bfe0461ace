/**
 * A pattern of somebody else, which is searched for in linear time (RE2) and in little memory.
 *
 * The library lets each pattern keep 8 MiB of states between texts. Only its sets take a limit, so a pattern is a set
 * of one. Beyond the limit it computes states anew.
 */
import { RE2JS, RE2Set } from 're2js';

const STATES_BYTES = 65_536;
/** Measured: an instruction takes 80 to 180 bytes. */
const INSTRUCTION_BYTES = 200;

/**
 * Returns how long the program of a pattern is. Groups that repeat multiply: 190 characters may make 180,000.
 * @throws RE2JSException if the pattern is not RE2
 */
export function instructionsOf(pattern: string): number {
  return RE2JS.compile(pattern).programSize();
}

export class Re2Pattern {
  /** About what it takes at most. */
  readonly bytes: number;
  readonly #set = new RE2Set(RE2Set.UNANCHORED, 0, STATES_BYTES);

  /** @throws RE2JSException if the pattern is not RE2 */
  constructor(pattern: string) {
    this.bytes = STATES_BYTES + instructionsOf(pattern) * INSTRUCTION_BYTES;
    this.#set.add(pattern);
    this.#set.compile();
  }

  /** True if any part of the text matches. */
  isIn(text: string): boolean {
    return this.#set.match(text).length > 0;
  }
}
