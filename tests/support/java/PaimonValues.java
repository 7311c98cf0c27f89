// Types and values of Java Paimon 1.4 and 2 as JSON, in the form of `tests/support/canonical.py`.
// A VARIANT is its JSON text, a BLOB its bytes like those of BYTES, a VECTOR a list.

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.BinaryVector;
import org.apache.paimon.data.Blob;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.GenericMap;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.data.variant.GenericVariant;
import org.apache.paimon.data.variant.Variant;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.DecimalType;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowType;
import org.apache.paimon.types.VectorType;
import org.apache.paimon.utils.HllSketchUtil;
import org.apache.paimon.utils.RoaringBitmap32;
import org.apache.paimon.utils.RoaringBitmap64;
import org.apache.paimon.utils.ThetaSketch;

final class PaimonValues {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final DateTimeFormatter POINT = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSSSSS");
    private static final DateTimeFormatter CLOCK = DateTimeFormatter.ofPattern("HH:mm:ss.SSS");

    private PaimonValues() {}

    // ── types ────────────────────────────────────────────────────────────────────────────────────

    /** The type of a text such as `MAP<INT, ROW<a STRING, b ARRAY<DATE>>> NOT NULL`. */
    static DataType type(String text) {
        String whole = text.trim();
        int open = whole.indexOf('<');
        if (open < 0) {
            return DataTypeJsonParser.parseAtomicTypeSQLString(whole);
        }
        int close = whole.lastIndexOf('>');
        List<String> parts = parts(whole.substring(open + 1, close));
        DataType type;
        switch (whole.substring(0, open).trim().toUpperCase()) {
            case "ARRAY":
                type = DataTypes.ARRAY(type(parts.get(0)));
                break;
            case "MULTISET":
                type = DataTypes.MULTISET(type(parts.get(0)));
                break;
            case "MAP":
                type = DataTypes.MAP(type(parts.get(0)), type(parts.get(1)));
                break;
            case "VECTOR":
                type = DataTypes.VECTOR(Integer.parseInt(parts.get(1).trim()), type(parts.get(0)));
                break;
            case "ROW":
                List<DataField> fields = new ArrayList<>();
                for (String part : parts) {
                    String[] named = part.trim().split("\\s+", 2);
                    fields.add(new DataField(fields.size(), named[0], type(named[1])));
                }
                type = new RowType(fields);
                break;
            default:
                throw new IllegalArgumentException(text);
        }
        return whole.substring(close + 1).trim().equalsIgnoreCase("NOT NULL") ? type.notNull() : type;
    }

    private static List<String> parts(String inner) {
        List<String> parts = new ArrayList<>();
        int depth = 0;
        int begin = 0;
        for (int at = 0; at < inner.length(); at++) {
            char one = inner.charAt(at);
            depth += one == '<' || one == '(' ? 1 : one == '>' || one == ')' ? -1 : 0;
            if (one == ',' && depth == 0) {
                parts.add(inner.substring(begin, at));
                begin = at + 1;
            }
        }
        parts.add(inner.substring(begin));
        return parts;
    }

    // ── from JSON ────────────────────────────────────────────────────────────────────────────────

    static GenericRow row(JsonNode values, RowType type, int from) {
        GenericRow row = new GenericRow(type.getFieldCount());
        for (int i = 0; i < type.getFieldCount(); i++) {
            row.setField(i, value(values.get(from + i), type.getTypeAt(i)));
        }
        return row;
    }

    static Object value(JsonNode given, DataType type) {
        if (given == null || given.isNull()) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return given.booleanValue();
            case TINYINT:
                return (byte) given.intValue();
            case SMALLINT:
                return (short) given.intValue();
            case INTEGER:
                return given.intValue();
            case BIGINT:
                return given.longValue();
            case FLOAT:
                return given.isTextual() ? Float.parseFloat(given.asText()) : (float) given.doubleValue();
            case DOUBLE:
                return given.isTextual() ? Double.parseDouble(given.asText()) : given.doubleValue();
            case DECIMAL:
                DecimalType decimal = (DecimalType) type;
                return Decimal.fromBigDecimal(
                        new BigDecimal(given.asText()), decimal.getPrecision(), decimal.getScale());
            case CHAR:
            case VARCHAR:
                return BinaryString.fromString(given.asText());
            case BINARY:
            case VARBINARY:
                return bytes(given);
            case BLOB:
                return Blob.fromData(bytes(given));
            case VARIANT:
                return GenericVariant.fromJson(given.asText());
            case DATE:
                return (int) LocalDate.parse(given.asText()).toEpochDay();
            case TIME_WITHOUT_TIME_ZONE:
                return (int) (LocalTime.parse(given.asText()).toNanoOfDay() / 1_000_000L);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                String point = given.asText().replace(' ', 'T').replace("Z", "");
                return Timestamp.fromLocalDateTime(LocalDateTime.parse(point));
            case ARRAY:
                return new GenericArray(values(given, ((ArrayType) type).getElementType()));
            case VECTOR:
                float[] numbers = new float[given.size()];
                for (int i = 0; i < numbers.length; i++) {
                    numbers[i] = (float) given.get(i).doubleValue();
                }
                return BinaryVector.fromPrimitiveArray(numbers);
            case MAP:
            case MULTISET:
                MapType map = mapOf(type);
                Map<Object, Object> pairs = new LinkedHashMap<>();
                for (JsonNode pair : given) {
                    pairs.put(value(pair.get(0), map.getKeyType()), value(pair.get(1), map.getValueType()));
                }
                return new GenericMap(pairs);
            case ROW:
                return row(given, (RowType) type, 0);
            default:
                throw new IllegalArgumentException("no value of " + type);
        }
    }

    private static MapType mapOf(DataType type) {
        return type instanceof MapType
                ? (MapType) type
                : new MapType(((MultisetType) type).getElementType(), DataTypes.INT().notNull());
    }

    private static Object[] values(JsonNode given, DataType type) {
        Object[] values = new Object[given.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = value(given.get(i), type);
        }
        return values;
    }

    private static int[] numbers(JsonNode list) {
        int[] numbers = new int[list.size()];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = list.get(i).intValue();
        }
        return numbers;
    }

    private static byte[] bytes(JsonNode given) {
        try {
            if (given.has("$rbm32")) {
                RoaringBitmap32 bitmap = new RoaringBitmap32();
                given.get("$rbm32").forEach(one -> bitmap.add(one.intValue()));
                return bitmap.serialize();
            }
            if (given.has("$rbm64")) {
                RoaringBitmap64 bitmap = new RoaringBitmap64();
                given.get("$rbm64").forEach(one -> bitmap.add(one.longValue()));
                return bitmap.serialize();
            }
        } catch (java.io.IOException error) {
            throw new IllegalArgumentException(error);
        }
        if (given.has("$hll")) {
            return HllSketchUtil.sketchOf(numbers(given.get("$hll")));
        }
        if (given.has("$theta")) {
            return ThetaSketch.sketchOf(numbers(given.get("$theta")));
        }
        String text = given.asText();
        if (!text.startsWith("0x")) {
            return text.getBytes(StandardCharsets.UTF_8);
        }
        byte[] bytes = new byte[text.length() / 2 - 1];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(text.substring(2 * i + 2, 2 * i + 4), 16);
        }
        return bytes;
    }

    static Map<String, String> texts(JsonNode object) {
        Map<String, String> texts = new HashMap<>();
        if (object != null) {
            object.fields().forEachRemaining(one -> texts.put(one.getKey(), one.getValue().asText()));
        }
        return texts;
    }

    static List<String> list(JsonNode list) {
        List<String> texts = new ArrayList<>();
        if (list != null) {
            list.forEach(one -> texts.add(one.asText()));
        }
        return texts;
    }

    // ── to JSON ──────────────────────────────────────────────────────────────────────────────────

    static String json(Object value) {
        try {
            return JSON.writeValueAsString(value);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    static List<Object> plain(InternalRow row, RowType type) {
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < type.getFieldCount(); i++) {
            DataType kind = type.getTypeAt(i);
            values.add(plain(InternalRow.createFieldGetter(kind, i).getFieldOrNull(row), kind));
        }
        return values;
    }

    private static List<Object> plain(InternalArray array, DataType kind) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(kind);
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < array.size(); i++) {
            values.add(plain(getter.getElementOrNull(array, i), kind));
        }
        return values;
    }

    private static List<Object> pairs(InternalMap map, MapType type) {
        List<Object> keys = plain(map.keyArray(), type.getKeyType());
        List<Object> values = plain(map.valueArray(), type.getValueType());
        Map<String, Object> sorted = new TreeMap<>();
        for (int i = 0; i < keys.size(); i++) {
            List<Object> pair = new ArrayList<>();
            pair.add(keys.get(i));
            pair.add(values.get(i));
            sorted.put(json(keys.get(i)), pair);
        }
        return new ArrayList<>(sorted.values());
    }

    private static String hex(byte[] bytes) {
        StringBuilder hex = new StringBuilder("0x");
        for (byte one : bytes) {
            hex.append(String.format("%02x", one));
        }
        return hex.toString();
    }

    static Object plain(Object value, DataType kind) {
        if (value == null) {
            return null;
        }
        switch (kind.getTypeRoot()) {
            case CHAR:
            case VARCHAR:
                return value.toString();
            case BINARY:
            case VARBINARY:
                return hex((byte[]) value);
            case BLOB:
                return hex(((Blob) value).toData());
            case VARIANT:
                return ((Variant) value).toJson();
            case DECIMAL:
                return ((Decimal) value).toBigDecimal().toPlainString();
            case FLOAT:
            case DOUBLE:
                double number = ((Number) value).doubleValue();
                return Double.isFinite(number) ? new BigDecimal(value.toString()) : value.toString();
            case DATE:
                return LocalDate.ofEpochDay((int) value).toString();
            case TIME_WITHOUT_TIME_ZONE:
                return CLOCK.format(LocalTime.ofNanoOfDay((int) value * 1_000_000L));
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return POINT.format(((Timestamp) value).toLocalDateTime());
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return POINT.format(((Timestamp) value).toLocalDateTime()) + "Z";
            case ARRAY:
                return plain((InternalArray) value, ((ArrayType) kind).getElementType());
            case VECTOR:
                return plain((InternalArray) value, ((VectorType) kind).getElementType());
            case ROW:
                return plain((InternalRow) value, (RowType) kind);
            case MAP:
            case MULTISET:
                return pairs((InternalMap) value, mapOf(kind));
            default:
                return value;
        }
    }
}
