/** Which of a Redis Cluster's slots a key is in: CRC16 (XMODEM) of its hash tag, or of all of it. */

const SLOTS = 16_384
const POLYNOMIAL = 0x1021

export function keySlot(key: string): number {
  const open = key.indexOf('{')
  const close = open < 0 ? -1 : key.indexOf('}', open + 1)
  const hashed = close > open + 1 ? key.slice(open + 1, close) : key
  return crc16(Buffer.from(hashed)) % SLOTS
}

function crc16(bytes: Buffer): number {
  let crc = 0
  for (const byte of bytes) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) {
      crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ POLYNOMIAL
    }
    crc &= 0xffff
  }
  return crc
}
